"""Engines that turn views into logits: the only part of pact-eval that needs torch and a model."""

import os

# Idle OpenMP threads spin by default. On a shared machine they then take the cores that other
# processes, and the threads they wait for, need: two scorings at once ran several times slower.
# OpenMP reads this variable once, when torch is loaded, so it is set before any module of this
# package imports torch. A value that the user has set is kept.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
