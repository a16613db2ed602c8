"""Engines that turn views into logits: the only part of pact-eval that needs torch and a model."""

import os

# Idle OpenMP threads spin by default. On a shared machine they then take the cores that other
# processes, and the threads they wait for, need: two scorings at once ran several times slower.
# Threads that sleep at once are woken late: a small model then takes twice as long on a quiet
# machine. GNU OpenMP, which torch's packages for Linux contain, can spin for a short time first.
# docs/performance.md has the measurements. OpenMP reads these variables once, when torch is loaded,
# so they are set before any module of this package imports torch. What the user has set is kept.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")
