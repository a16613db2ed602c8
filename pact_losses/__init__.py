"""Room for the PACT objective: torch only, nothing of ours imported. Nothing is in it yet."""
