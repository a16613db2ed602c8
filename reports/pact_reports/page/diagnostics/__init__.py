"""What to worry about: sentences computed from results, each with its number and threshold.

A worry is a pure function from results to `Worry` objects: none where all is well. `all_worries`
gathers those of a page, gravest first.
"""

from pact_reports.page.diagnostics.gathering import WorryContext, all_worries
from pact_reports.page.diagnostics.model import GRAVITIES, WORRIES, Gravity, Worry, WorryKind

__all__ = [
    "GRAVITIES",
    "WORRIES",
    "Gravity",
    "Worry",
    "WorryContext",
    "WorryKind",
    "all_worries",
]
