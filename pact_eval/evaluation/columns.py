"""The items of a run as columns of numbers: what the report needs of millions of them.

No text, no logits: about 60 bytes an item. Columns are made from scored items in memory, or slice
by slice from the file of a run.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from pact_eval import metrics
from pact_eval.evaluation.items import ScoredItems, label_codes

__all__ = ["ItemColumns"]


@dataclass(frozen=True, eq=False)
class ItemColumns:
    """Items under one decoding; shapes are (n,).

    Attributes:
        cluster: code of the family, in 0..F-1, every code taken.
        is_base: base of its pair.
        is_score: of a Score field.
        reference: canonical index of the right answer.
        predicted: canonical index of the most probable answer.
        confidence: its probability.
        nll: in nats.
        brier: not halved.
        expected_level_error: of Score items, in levels.
        view_tv: mean over pairs of views; NaN for one view.
        flipped: 1 where the views disagree; NaN for one view.
        gain: right by K views minus right by view 0; NaN for one view.
    """

    cluster: npt.NDArray[np.integer]
    is_base: npt.NDArray[np.bool_]
    is_score: npt.NDArray[np.bool_]
    reference: npt.NDArray[np.integer]
    predicted: npt.NDArray[np.integer]
    confidence: npt.NDArray[np.float64]
    nll: npt.NDArray[np.float64]
    brier: npt.NDArray[np.float64]
    expected_level_error: npt.NDArray[np.float64]
    view_tv: npt.NDArray[np.floating]
    flipped: npt.NDArray[np.floating]
    gain: npt.NDArray[np.floating]

    @classmethod
    def of(cls, items: ScoredItems) -> ItemColumns:
        """Take the columns from items in memory."""
        predictions = items.predictions
        return cls(
            cluster=label_codes(predictions.family),
            is_base=predictions.variant == "base",
            is_score=predictions.kind == "score",
            reference=predictions.reference,
            predicted=metrics.predicted(items.log_probs),
            confidence=items.confidence,
            nll=items.nll,
            brier=items.brier,
            expected_level_error=items.expected_level_error,
            view_tv=items.view_tv,
            flipped=items.flipped,
            gain=items.gain,
        )

    def __len__(self) -> int:
        return len(self.cluster)

    @property
    def n_clusters(self) -> int:
        """Number of families, F."""
        return int(self.cluster.max(initial=-1)) + 1

    @property
    def correct(self) -> npt.NDArray[np.bool_]:
        """Whether the reference is predicted, (n,)."""
        return np.asarray(self.predicted == self.reference)

    def taken(self, rows: npt.NDArray[np.int64]) -> ItemColumns:
        """Return the items of some rows, their families numbered anew."""
        columns = {field.name: getattr(self, field.name)[rows] for field in fields(self)}
        present = np.bincount(columns["cluster"], minlength=1) > 0
        columns["cluster"] = (np.cumsum(present) - 1)[columns["cluster"]]
        return ItemColumns(**columns)

    def pairs(self) -> metrics.PairIndex:
        """Find the complete pairs, as `metrics.pair_rows` does, without sorting."""
        n_clusters = self.n_clusters
        base, other = np.flatnonzero(self.is_base), np.flatnonzero(~self.is_base)
        complete = np.ones(n_clusters, dtype=np.bool_)
        row = np.zeros((2, n_clusters), dtype=np.int64)
        for at, rows in enumerate((base, other)):
            families = self.cluster[rows]
            complete &= np.bincount(families, minlength=n_clusters) == 1
            row[at, families] = rows
        return metrics.PairIndex(
            base=row[0, complete],
            counterfactual=row[1, complete],
            rows=len(self),
            incomplete_families=n_clusters - int(complete.sum()),
        )
