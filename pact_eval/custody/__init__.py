"""Chain of custody: what an adapter was trained on, and whether that meets the evaluated data."""
