"""Mainstay beside the other savers that a user can install: the same work for all."""
