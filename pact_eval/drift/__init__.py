"""Drift: changes of a model, a server or its input between two runs, compared with a margin."""
