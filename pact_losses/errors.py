"""The errors of pact_losses: one tree, all of them `ValueError`.

PactLossError
├── ViewError        a view that cannot be trained on; the message names its record
├── FamilyError      views that do not form a family: a single member, equal references
├── BatchError       index tables or logits that do not fit each other
└── NonFiniteError   a term or a logit that is not a finite number; the message names it
"""

from __future__ import annotations


class PactLossError(ValueError):
    """Base class of all errors of pact_losses."""


class ViewError(PactLossError):
    """A view that cannot be trained on."""


class FamilyError(PactLossError):
    """Views that do not form a family."""


class BatchError(PactLossError):
    """Index tables or logits that do not fit each other."""


class NonFiniteError(PactLossError):
    """A term or a logit that is not a finite number."""
