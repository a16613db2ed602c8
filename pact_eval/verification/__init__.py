"""What can be checked about runs and reports: seals, digests, and the files that a run names."""
