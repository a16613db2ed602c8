"""Workers: several processes that score the windows of one run, here or on a Ray cluster."""
