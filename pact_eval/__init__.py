"""Audit and evaluate single-token typed-decision models."""
