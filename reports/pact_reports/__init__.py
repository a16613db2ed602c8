"""Outputs that people read: terminal tables, figures, the HTML page and LaTeX tables."""
