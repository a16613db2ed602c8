"""Model folders on disk: adapters and base models, their configuration and hashes. No torch."""
