"""The parts of the benchmark `run`."""
