"""The parts of the benchmark `pages`: what is saved how, by which programs, and what comes of it."""
