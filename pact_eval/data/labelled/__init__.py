"""Labelled files of any origin, read as records: containers, shapes, and the conversion."""
