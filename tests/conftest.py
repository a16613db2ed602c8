"""Settings for all tests."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is no failure: speed is shown by benchmarks.
settings.register_profile("pact", deadline=None)
settings.load_profile("pact")
