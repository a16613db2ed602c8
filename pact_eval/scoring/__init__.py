"""Engines that turn views into logits: the only part of pact-eval that needs torch and a model."""

import os

import pact_eval.scoring.waiting as _waiting

# Before any module of this package imports torch: OpenMP reads the variables once.
_waiting.set_wait_policy(os.environ)
