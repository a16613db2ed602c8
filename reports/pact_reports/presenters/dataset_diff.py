"""Changes between two versions of a dataset file."""

from __future__ import annotations

from functools import partial
from typing import cast

from pact_eval._json import Json
from pact_eval.data.diff import DatasetDiff
from pact_reports.presenters.presenter import Presenter
from pact_reports.tables.dataset import diff_parts
from pact_reports.writers.json import to_json


def present(difference: DatasetDiff, most: int = 20) -> Presenter:
    """Present a difference.

    Args:
        difference: of two files.
        most: records shown in each list; JSON has all.
    """
    counts: dict[str, Json] = {"unchanged": difference.unchanged, "flipped": difference.flipped}
    return Presenter(
        tables=partial(diff_parts, difference, most=most),
        to_json=lambda: cast("dict[str, Json]", to_json(difference)) | counts,
    )
