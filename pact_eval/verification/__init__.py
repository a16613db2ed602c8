"""Verification of runs and reports: seals, digests, and the files that a run names."""
