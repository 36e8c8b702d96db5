"""The parts of bench/objects.py."""
