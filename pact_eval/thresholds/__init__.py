"""Thresholds: gates and answer sets with a guarantee for new families, and their checks."""
