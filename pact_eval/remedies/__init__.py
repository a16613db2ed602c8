"""Remedies of order effects: decodings that cost less than K views, compared at their price."""
