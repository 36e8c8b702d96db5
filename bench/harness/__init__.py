"""What all benchmarks share: building and running their programs, rows of results, the machine."""
