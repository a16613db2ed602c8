"""Presenters: one object per result, which every surface lays out."""
