"""Repositories of the Hugging Face Hub: their names, their snapshots in the cache, downloads."""
