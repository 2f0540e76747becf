"""Renders an audit; knows the models, never a host."""
