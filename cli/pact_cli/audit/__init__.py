"""`pact-audit`: one command a file."""
