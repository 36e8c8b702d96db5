"""The programs, results and plots of the benchmark `speculation`."""
