"""Logs made elsewhere, imported as runs: one module per format, one reader for all."""
