"""Views: what commands, Python and JSON show of each kind of result, one module per command."""
