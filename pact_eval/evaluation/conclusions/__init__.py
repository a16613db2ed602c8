"""Conclusions: one typed answer to each question of a reader, computed once and laid out everywhere."""
