"""Experiments: a plan in a file, its steps in order, and their receipts, on one machine or a cluster."""
