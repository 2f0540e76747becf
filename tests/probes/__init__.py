"""Tests of the probes package."""
