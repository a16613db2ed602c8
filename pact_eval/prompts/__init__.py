"""Prompts: the contract interface, the Nimble contract, letter orders, requests, and token ids."""
