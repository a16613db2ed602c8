"""Drift: has a model, a server or its input changed between two runs, and by more than a margin?"""
