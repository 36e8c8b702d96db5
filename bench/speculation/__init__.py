"""What the benchmark `speculation` runs, counts and draws."""
