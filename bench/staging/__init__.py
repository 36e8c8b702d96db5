"""The parts of the benchmark `staging`: the written pieces, the sides, and the results."""
