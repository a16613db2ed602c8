"""Runs and logs in object stores: copied once, and read from the copy."""
