"""Conclusions: one typed answer per question of a reader, which every surface lays out."""
