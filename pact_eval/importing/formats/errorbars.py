"""Source "errorbars": scores of errorbars in its long format, a row per question and model.

question_id,model,score,cluster_id
"""

from __future__ import annotations

from typing import Final

from pact_eval.importing.graded import GradedSource


class Errorbars(GradedSource):
    """Scores of errorbars."""

    title = "errorbars"
    reads = "CSV, JSON"
    required = ("model",)
    ids = ("question_id",)
    grades = ("score",)
    groups = ("cluster_id",)
    repeats = ("sample",)


SOURCE: Final = Errorbars()
"""The entry of the registry."""
