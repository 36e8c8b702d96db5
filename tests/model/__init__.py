"""Random programs over the whole interface, played by real jobs, and a model that says what must come of each call."""
