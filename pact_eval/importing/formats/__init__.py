"""The formats of logs: one module for each, named as in `--from`."""
