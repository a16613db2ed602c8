"""Results as cases and annotations, for systems that run checks on every change."""
