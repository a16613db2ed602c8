"""The formats of logs: each module reads one, and its name is that of `--from`."""
