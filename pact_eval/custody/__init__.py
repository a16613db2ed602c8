"""Chain of custody: training data of an adapter, and its overlap with the evaluated data."""
