"""Parts of all benchmarks: building and running their programs, rows of results, the machine."""
