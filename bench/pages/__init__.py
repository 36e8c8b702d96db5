"""The parts of the benchmark `pages`: its sides, its programs, and its results."""
