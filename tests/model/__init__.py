"""Random programs over the whole interface run as real jobs. A model knows the right result of each call."""
