"""The errors of pact_losses: one tree, all of them `ValueError`.

PactLossError
├── ViewError        a view that cannot be trained on; the message names its record
├── FamilyError      views that do not make a family: a single member, references that do not flip
├── BatchError       index tables or logits that do not fit each other
└── NonFiniteError   a term or a logit that is not a finite number; the message names it
"""

from __future__ import annotations


class PactLossError(ValueError):
    """Anything that pact_losses refuses."""


class ViewError(PactLossError):
    """A view that cannot be trained on."""


class FamilyError(PactLossError):
    """Views that do not make a family."""


class BatchError(PactLossError):
    """Index tables or logits that do not fit each other."""


class NonFiniteError(PactLossError):
    """A term or a logit that is not a finite number."""
