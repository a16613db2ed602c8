"""Export of adapters to decision models of transformers, verified against our own numbers."""

import pact_eval.scoring  # noqa: F401 -- it sets how OpenMP waits, before torch is loaded
