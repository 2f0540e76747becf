"""Reads and measures the machine; never judges."""
