"""Engines that turn views into logits: the only part of pact-eval that needs torch and a model."""

import os

from pact_eval.scoring.waiting import set_wait_policy

# Before any module of this package imports torch: OpenMP reads the variables once.
set_wait_policy(os.environ)
