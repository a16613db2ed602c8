"""Tolerances of logits and of what follows from them: how far two correct computations may differ.

Two float32 computations of one logit differ because their sums have another order: by batch, by
number of threads, by processor, and by the kernels (MKL or oneDNN) that the probe of
`pact_eval.scoring.cpu` chooses. A product of up to 1,024 factors that passes the probe is
off by at most `FLOAT32_ERROR` of its largest entry. The logits of the tests' models stay below 20,
so the bound of one product is 1e-4 (`NOISE`). The errors of many layers partly cancel: with both
kernels, and with 1, 2 and 4 threads, the largest difference on an AMD EPYC was 1.2e-5.

The smallest fault that matters is far larger: `scoring/test_tolerances.py` plants some.
"""

from __future__ import annotations

import math
from typing import Final

from pact_eval.evaluation.notes import NOISE
from pact_eval.scoring.cpu import FLOAT32_ERROR

LOGIT: Final = NOISE["float32"]
"""Of a logit, or of a log-probability of float32 arithmetic."""

PROBABILITY: Final = math.tanh(LOGIT / 2)
"""Of a probability, or of an answer mass: what it changes at most if logits change by `LOGIT`."""

NLL: Final = 2 * LOGIT
"""Of an NLL in nats: the logit of the reference falls, and all others rise."""

PRODUCT: Final = FLOAT32_ERROR
"""Of hidden states and of the output of attention, whose entries are about 1."""

MERGED_PROBABILITY: Final = 0.01
"""Of a probability if an adapter is merged into bfloat16 weights, each rounded by up to 2^-9."""


SAME_STEPS: Final = 1e-6
"""Of a loss in nats, or of a weight below 1, after a few steps of the same operations in the same
order on the same kernels: 16 roundings of float32 (2^-24)."""

BFLOAT16_LOGIT: Final = 8 * NOISE["bfloat16"]
"""Of a logit if all products of a model are of bfloat16: several roundings near 16 add up."""


def tempered(tolerance: float, temperature: float) -> float:
    """Return the tolerance of logits that were divided by a temperature."""
    return tolerance / temperature
