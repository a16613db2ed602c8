"""Experiments: a plan in a file, and its steps in order, on one machine or a cluster."""
