"""The audit of an adapter folder: one question a file, read as bytes and plain JSON."""
