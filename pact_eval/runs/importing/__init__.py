"""Predictions made elsewhere, imported as runs: one file per source."""
