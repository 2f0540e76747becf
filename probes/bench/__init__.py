"""Loads and workloads that a run may start on request: stress-ng, a spinner, cyclictest."""
