"""Servers that answer the records of a run: clients of wires, with one status per item."""
