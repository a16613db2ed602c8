"""Content-free prompts of a run: the same questions and orders, with a context that says nothing.

    content-free/         a run in the folder of its run: its own rows, provenance and seal
        predictions.parquet   ids "0/<id>", "1/<id>", "2/<id>": one for each content

Its settings are those of the run, except for the number of records and views, and "content_free",
the list of contents. Readers of the run ignore the folder; `sweep --remedies` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from pact_eval._json import Json, flat
from pact_eval._typing import FloatArray
from pact_eval.errors import RunError
from pact_eval.runs.folder import Run, RunFolder, read_run
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.seal import CONTENT_FREE, PREDICTIONS

CONTENTS: Final = ("N/A", "[MASK]", "")
"""What replaces the context, as published: Zhao et al., ICML 2021."""

MOST_VIEWS: Final = 2
"""Views of content-free prompts: as many as remedies with contextual calibration have."""

SETTING: Final = "content_free"
"""Key of the contents in the settings of content-free prompts."""

_OTHER: Final = (SETTING, "k", "data.records")


def content_free_id(record_id: str, content: int) -> str:
    """Return the id of a record with a content in place of its context.

    Examples:
        >>> content_free_id("travel-01-base", 2)
        '2/travel-01-base'
    """
    return f"{content}/{record_id}"


def record_id_of(prompt_id: str) -> str:
    """Return the id of the record of a content-free prompt.

    Examples:
        >>> record_id_of(content_free_id("travel-01/base", 2))
        'travel-01/base'
    """
    return prompt_id.partition("/")[2]


def content_free_run(run: RunFolder) -> Run | None:
    """Return the content-free prompts of a run; None if it has none, or not all of them yet.

    Raises:
        RunError: they were scored with other settings than the run, or are damaged.
        TamperedError: they have changed since they were scored.
    """
    folder = run.folder / CONTENT_FREE
    if not (folder / PREDICTIONS).exists():
        return None
    content_free = read_run(folder)
    before, after = _comparable(run.settings), _comparable(content_free.settings)
    differing = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
    if differing or content_free.settings.get(SETTING) != [*CONTENTS]:
        raise RunError(
            f"{folder}: not the content-free prompts of this run (they differ in "
            f"{', '.join(differing) or SETTING}); remove the folder, and repeat the scoring "
            "command with --content-free"
        )
    return content_free


def content_free_probabilities(predictions: Predictions, content_free: Predictions) -> FloatArray:
    """Return the mean distribution of the content-free prompts of every item and view.

    Args:
        predictions: the views of a run, n items with C answers at most.
        content_free: its content-free prompts, of V views.

    Returns:
        Shape (n, V, C) in canonical order; NaN for items of which a content has no answer, or whose
        orders are not those of the run.
    """
    width, views = predictions.logits.shape[2], min(content_free.k, predictions.k)
    rows = {name: row for row, name in enumerate(content_free.ids.tolist())}
    by_content = np.array(
        [
            [rows.get(content_free_id(name, number), -1) for number in range(len(CONTENTS))]
            for name in predictions.ids.tolist()
        ]
    ).reshape(len(predictions), len(CONTENTS))
    missing = (by_content < 0).any(axis=1)
    own = content_free.code_order[by_content, :views, :width]
    orders = predictions.code_order[:, np.newaxis, :views, : own.shape[3]]
    missing |= (own != orders).any(axis=(1, 2, 3))
    mean = np.exp(content_free.log_probs_by_view)[by_content, :views].mean(axis=1)
    mean[missing] = np.nan
    padded = np.zeros((len(predictions), views, width))
    padded[..., : mean.shape[2]] = mean[..., :width]
    return padded


def _comparable(settings: Mapping[str, Json]) -> dict[str, Json]:
    return {
        key: value
        for key, value in flat(dict(settings)).items()
        if not any(key == name or key.startswith(f"{name}.") for name in _OTHER)
    }
