"""The parts of the benchmark `staging`: what is written, by whom, and what comes of it."""
