"""Source "jevkit": `.jevl` records of jevkit, a request and its answers per line.

    {"v": 1, "id", "ts", "model", "request": {"state", "questions"}, "answers", "usage", "label"}

Its ids name the model too, so items have the hash of what was asked about. A request that is
recorded again replaces the first. Right answers of scores are positions from 0.
"""

from __future__ import annotations

from typing import Final

from pact_eval.data.labelled.answers import POSITIONS
from pact_eval.importing.exchange_rows import ExchangeSource


class Jevkit(ExchangeSource):
    """Records of jevkit."""

    title = "jevkit"
    reads = "`.jevl`"
    keys = ("v", "ts", "request", "answers")
    last_counts = True
    levels = POSITIONS[0]


SOURCE: Final = Jevkit()
"""The entry of the registry."""
