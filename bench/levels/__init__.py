"""The parts of the benchmark `levels`."""
