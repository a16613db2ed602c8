"""Prompts: the contract, code orders, requests, and their encoding as token ids."""
