"""Source "statgate": results of statgate, a row per case.

{"case_id", "passed", "score", "run_index", "metadata"}
"""

from __future__ import annotations

from typing import Final

from pact_eval.importing.graded import GradedSource


class Statgate(GradedSource):
    """Results of statgate."""

    title = "statgate"
    reads = "CSV, JSON"
    ids = ("case_id",)
    grades = ("passed", "score")
    repeats = ("run_index",)


SOURCE: Final = Statgate()
"""The entry of the registry."""
