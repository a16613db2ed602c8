"""The audit of an adapter folder: one question per file, read as bytes and plain JSON."""
