"""`pact-audit`: one command per file."""
