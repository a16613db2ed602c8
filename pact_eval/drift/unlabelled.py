r"""Drift between two logs whose right answers are unknown: answers, confidences and questions.

Items that both logs have are compared one by one. A changed answer says little if asking again
changes as many, so it is set against the repeats of an item in one log: with the shares
:math:`p_a` and :math:`q_a` of the answer a among the repeats of an item before and after,

.. math:: changed = 1 - \sum_a p_a q_a, \quad
          noise = \frac{1}{2} \Bigl(1 - \frac{\sum_a n_a (n_a - 1)}{n (n - 1)}\Bigr)_{before}
                  + \frac{1}{2} \Bigl(1 - \frac{\sum_a m_a (m_a - 1)}{m (m - 1)}\Bigr)_{after}

How often each answer and each question occurs, and how sure the answers are, is compared between
all items of one log and all of the other, with or without items in common: differences of means,
with intervals and permutation tests over families, adjusted by Holm for all of them.

None of this says whether answers are right. Accuracy on the items of both logs cannot have changed
by more than the share with another answer; which way it went takes their right answers alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import polars as pl

from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.errors import InputError
from pact_eval.evaluation.conclusions.order import CHANGES
from pact_eval.notes import Note
from pact_eval.results import Result
from pact_eval.stats._quantiles import t_quantile
from pact_eval.stats.estimate import FEWEST, LEVEL, Estimate, Method
from pact_eval.stats.group_permutation import group_permutation_test
from pact_eval.stats.multiplicity import holm
from pact_eval.stats.proportions import few_clusters, rate_estimate, without_interval

LOG_COLUMNS: Final = {
    "id": pl.String,
    "family": pl.String,
    "question": pl.String,
    "answer": pl.String,
    "confidence": pl.Float64,
}
"""Columns of a log: one row per answer. Repeats have the id of their item. The answer of a reply
without one is null, as is a confidence that is not known."""

MOST_ANSWERS: Final = 12
"""So many answers of a question are compared, those that are given most often."""

_RARE: Final = 10
_POINTS: Final = 0.05
_MOST: Final = 0.5
_Z: Final = 1.959964 + 0.841621
_METHOD: Final = Method("t interval", " (difference of means)")

What = Literal["answer", "unanswered", "confidence", "below", "question"]
Finding = Literal["changed", "no change shown", "too few to tell"]
"""changed: a test shows it, or more answers changed than by asking again; if that is not known,
more than `CHANGES`. too few to tell: fewer than five families in a log."""


@dataclass(frozen=True)
class Shift:
    """A share or a mean of one log and of the other.

    Attributes:
        what: an answer or a question, of which it is the share; the share without an answer; the
            mean confidence; or the share of answers with a confidence below a threshold.
        name: of the answer or question; "" for others.
        question: whose items it is about; "" for all.
        before: of the first log.
        after: of the second log.
        change: the second minus the first, with its interval over families.
        p: p-value of the permutation test over families, adjusted for all tests of the two logs.
    """

    what: What
    name: str
    question: str
    before: float
    after: float
    change: Estimate
    p: float

    @property
    def shown(self) -> bool:
        """Whether the logs differ in it at the 5% level."""
        return self.p <= LEVEL


@dataclass(frozen=True)
class SameItems:
    """Answers to the items that both logs have.

    Attributes:
        items: their number.
        changed: share with another answer, with its interval over families: of repeats, the mean
            over all pairs of one of each log.
        noise: the same by asking again, over the items with repeats; NaN without any.
        beyond: `changed` minus noise, over the items with a noise, with its interval.
        ids: of the items of which most pairs differ, in the order of their names.
    """

    items: int
    changed: Estimate
    noise: float
    beyond: Estimate
    ids: tuple[str, ...]

    @property
    def shown(self) -> bool:
        """Whether more answers changed than by asking again; than `CHANGES` if that is unknown."""
        if math.isnan(self.noise):
            return self.changed.low > CHANGES
        return self.beyond.low > 0


@dataclass(frozen=True)
class LogSide:
    """What is known of a log or run besides its answers.

    Attributes:
        place: the file or folder, as messages name it.
        model: that answered; None if it is not known.
        answers: their number, with replies that have none.
        unanswered: share of replies without an answer, in 0..1.
        refused: share of replies that are a refusal, in 0..1.
        latency_ms: median and 95% quantile over requests; NaN if not known.
        price: mean per answer, in the currency of the log; NaN if not known.
        labelled: whether it has right answers, which were left out.
    """

    place: str
    model: str | None
    answers: int
    unanswered: float
    refused: float
    latency_ms: tuple[float, float]
    price: float
    labelled: bool


@dataclass(frozen=True, repr=False)
class UnlabelledDrift(Result):
    """What two logs without right answers differ in.

    Attributes:
        names: of the first and the second log.
        items: different items of each.
        families: of each.
        same: the items that both have; None without any, or if a log names no answer.
        shifts: what was tested, in the order of the tests.
        below: the threshold of confidence; None without one.
        to_label: items of each log whose right answers would show a change of 5 points in accuracy
            in 80% of cases, whatever the accuracy is: single items, and other ones in each log.
        logs: the first and the second log, if they were files or runs.
        prompts: questions of both logs whose text differs, as far as it is known.
        warnings: what to know of how items were matched.
    """

    names: tuple[str, str]
    items: tuple[int, int]
    families: tuple[int, int]
    same: SameItems | None
    shifts: tuple[Shift, ...]
    below: float | None
    to_label: int
    logs: tuple[LogSide, ...] = ()
    prompts: tuple[str, ...] = ()
    warnings: tuple[Note, ...] = ()

    @property
    def shown(self) -> tuple[Shift, ...]:
        """The shifts that are shown, the smallest p-value first."""
        return tuple(sorted((shift for shift in self.shifts if shift.shown), key=lambda one: one.p))

    @property
    def finding(self) -> Finding:
        """Whether the logs differ."""
        if min(self.families) < FEWEST:
            return "too few to tell"
        changed = bool(self.shown) or (self.same is not None and self.same.shown)
        return "changed" if changed else "no change shown"


def compare_logs(
    before: pl.DataFrame,
    after: pl.DataFrame,
    *,
    names: tuple[str, str] = ("before", "after"),
    below: float | None = None,
    seed: int = 0,
) -> UnlabelledDrift:
    """Compare two logs of answers without using right answers.

    Args:
        before: rows of `LOG_COLUMNS`, one or more.
        after: the same of the second log.
        names: of the logs.
        below: threshold of confidence: the share of answers below it is tested too. In (0, 1).
        seed: of the permutations.

    Raises:
        InputError: a log has no rows or lacks a column, or an item has another family, or another
            question, in the other log.

    Examples:
        >>> import polars as pl
        >>> def log(yes):
        ...     ids = [f"i{at}" for at in range(100)]
        ...     return pl.DataFrame({"id": ids, "family": ids, "question": "refund?",
        ...         "answer": ["yes" if at < yes else "no" for at in range(100)],
        ...         "confidence": [0.9] * 100})
        >>> drift = compare_logs(log(50), log(80))
        >>> drift.finding, drift.same.changed.value, len(drift.same.ids)
        ('changed', 0.3, 30)
        >>> [(shift.name, round(shift.change.value, 2)) for shift in drift.shown]
        [('yes', 0.3)]
    """
    first, second = _checked(before, names[0]), _checked(after, names[1])
    _check_same(first, second, names)
    rows = _Rows.of(first, second)
    shifts = [*rows.shifts(below, np.random.default_rng(seed))]
    adjusted = holm([shift.p for shift in shifts]).tolist() if shifts else []
    return UnlabelledDrift(
        names=names,
        items=(first["id"].n_unique(), second["id"].n_unique()),
        families=(first["family"].n_unique(), second["family"].n_unique()),
        same=_same_items(first, second),
        shifts=tuple(replace(shift, p=p) for shift, p in zip(shifts, adjusted, strict=True)),
        below=below,
        # Two shares of one spread, p (1 - p) at most 1/4: n = 2 (z + z')^2 p (1 - p) / d^2.
        to_label=math.ceil(2 * _Z**2 / 4 / _POINTS**2),
    )


def _checked(log: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the columns of a log, with the types that they must have."""
    lacking = [column for column in LOG_COLUMNS if column not in log.columns]
    if lacking or log.is_empty():
        message = f"expected the columns {', '.join(LOG_COLUMNS)}" if lacking else "expected rows"
        raise InputError(f"{name}: {message}, got {', '.join(log.columns) or 'none'}")
    columns = (pl.col(column).cast(dtype) for column, dtype in LOG_COLUMNS.items())
    # Sums and permutations do not depend on the order of rows then.
    return log.select(columns).sort(*LOG_COLUMNS)


def _check_same(a: pl.DataFrame, b: pl.DataFrame, names: tuple[str, str]) -> None:
    """Refuse an id that is another item in the other log."""
    for column in ("family", "question"):
        both = a.select("id", column).unique().join(b.select("id", column).unique(), on="id")
        other = both.filter(pl.col(column) != pl.col(f"{column}_right")).sort("id")
        if len(other):
            item, first, second = other.row(0)
            raise InputError(
                f"{item} has the {column} {first!r} in {names[0]} and {second!r} in {names[1]}"
            )


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of both logs.

    Attributes:
        frame: of both, the first log first.
        second: (n,) whether a row is of the second log.
        cluster: (n,) code of its family.
    """

    frame: pl.DataFrame
    second: BoolArray
    cluster: IntArray

    @classmethod
    def of(cls, a: pl.DataFrame, b: pl.DataFrame) -> _Rows:
        frame = pl.concat([a, b])
        cluster = frame["family"].rank("dense").to_numpy().astype(np.int64) - 1
        return cls(frame, np.arange(len(frame)) >= len(a), cluster)

    def shifts(self, below: float | None, rng: np.random.Generator) -> Iterator[Shift]:
        """Yield every number that is compared, with its p-value before adjustment."""
        everything = np.ones(len(self.frame), dtype=np.bool_)
        questions = self.frame["question"].to_numpy()
        counts = self.frame["question"].value_counts()
        counts = counts.sort("count", "question", descending=[True, False])
        common = [str(name) for name, n in counts.rows() if n >= _RARE]
        several = len(counts) > 1
        for name in common if several else ():
            yield from self._shift("question", name, "", questions == name, everything, rng)
        for question in common:
            rows = questions == question
            for answer in self._answers(rows):
                given = self.frame["answer"].eq_missing(answer).to_numpy()
                asked = question if several else ""
                yield from self._shift("answer", answer, asked, given, rows, rng)
        lacking = self.frame["answer"].is_null().to_numpy()
        if lacking.any() and not lacking.all():
            yield from self._shift("unanswered", "", "", lacking, everything, rng)
        confidence = self.frame["confidence"].to_numpy()
        known = np.isfinite(confidence)
        yield from self._shift("confidence", "", "", confidence, known, rng)
        if below is not None:
            yield from self._shift("below", "", "", confidence < below, known, rng)

    def _answers(self, rows: BoolArray) -> Sequence[str]:
        """Return the answers of a question that are given often enough to be compared."""
        answers = self.frame.filter(pl.Series(rows))["answer"].drop_nulls()
        counts = answers.value_counts().sort("count", "answer", descending=[True, False])
        often = [str(name) for name, n in counts.rows() if n >= _RARE][:MOST_ANSWERS]
        # Of two answers, one says all.
        return often[:1] if len(counts) == 2 and len(answers) == rows.sum() else often

    def _shift(
        self,
        what: What,
        name: str,
        question: str,
        values: FloatArray | BoolArray,
        rows: BoolArray,
        rng: np.random.Generator,
    ) -> Iterator[Shift]:
        """Yield the difference of the means of some rows; nothing if a log has none of them."""
        second, cluster = self.second[rows], self.cluster[rows]
        numbers = np.asarray(values, dtype=np.float64)[rows]
        if second.all() or not second.any():
            return
        change = _difference(numbers, second, cluster)
        test = group_permutation_test(
            numbers, cluster, second, higher=change.value > 0, rng=rng.spawn(1)[0]
        )
        yield Shift(
            *(what, name, question, test.outside, test.inside, change), p=min(1.0, 2 * test.p_value)
        )


def _difference(values: FloatArray, second: BoolArray, cluster: IntArray) -> Estimate:
    r"""Return the difference of two means, with Student's interval over clusters.

    .. math:: V = \frac{F}{F - 1} \sum_f u_f^2, \quad
              u_f = \sum_{i \in f, after} \frac{x_i - \bar x_1}{n_1}
                  - \sum_{i \in f, before} \frac{x_i - \bar x_0}{n_0}

    so that a cluster of both logs counts once.
    """
    means = [float(values[side].mean()) for side in (~second, second)]
    sizes = [int(side.sum()) for side in (~second, second)]
    at = second.astype(np.int64)
    parts = (values - np.array(means)[at]) / np.array(sizes)[at] * (2 * at - 1)
    _, code = np.unique(cluster, return_inverse=True)
    influence = np.bincount(code, parts).astype(np.float64)
    return _estimate(means[1] - means[0], influence, values.size)


def _estimate(value: float, influence: FloatArray, n: int) -> Estimate:
    clusters = influence.size
    if clusters < 2:
        return Estimate(value, math.nan, math.nan, n, clusters, _METHOD)
    error = math.sqrt(clusters / (clusters - 1) * float((influence**2).sum()))
    reach = t_quantile(1 - LEVEL / 2, clusters - 1) * error
    estimate = Estimate(value, value - reach, value + reach, n, clusters, _METHOD)
    return without_interval(estimate, few_clusters(clusters))


def _same_items(a: pl.DataFrame, b: pl.DataFrame) -> SameItems | None:
    """Compare the answers to the items that both logs have; None without any."""
    if any(log["answer"].is_null().all() for log in (a, b)):  # nothing says which they are
        return None
    first, second = (_by_item(log) for log in (a, b))
    both = first.join(second, on="id", suffix="_after", maintain_order="left")
    if both.is_empty():
        return None
    agree = _agreement(a, b, both["id"])
    changed = 1 - agree
    _, cluster = np.unique(both["family"].to_numpy(), return_inverse=True)
    noise = both.select(
        pl.mean_horizontal("noise", "noise_after", ignore_nulls=True).cast(pl.Float64)
    ).to_series()
    known = noise.is_not_null().to_numpy()
    beyond = changed[known] - noise.drop_nulls().to_numpy()
    ids = both.filter(pl.Series(changed > _MOST))["id"].to_list()
    sums, sizes = np.bincount(cluster, changed), np.bincount(cluster)
    share = rate_estimate(sums, sizes, squares=np.bincount(cluster, changed**2))
    return SameItems(
        items=len(both),
        changed=without_interval(share, few_clusters(share.clusters)),
        noise=float(noise.mean()) if known.any() else math.nan,  # type: ignore[arg-type]
        beyond=_mean(beyond, cluster[known]),
        ids=tuple(ids),
    )


def _by_item(log: pl.DataFrame) -> pl.DataFrame:
    """Return the family of each item, and how often two repeats of it differ; null without any."""
    counts = log.group_by("id", "answer", maintain_order=True).agg(pl.len().alias("n"))
    pairs = counts.group_by("id", maintain_order=True).agg(
        pl.col("n").sum().alias("rows"), (pl.col("n") * (pl.col("n") - 1)).sum().alias("alike")
    )
    total = pl.col("rows") * (pl.col("rows") - 1)
    noise = pl.when(total > 0).then(1 - pl.col("alike") / total).alias("noise")
    families = log.group_by("id", maintain_order=True).agg(pl.col("family").first())
    return families.join(pairs.select("id", noise), on="id", maintain_order="left")


def _agreement(a: pl.DataFrame, b: pl.DataFrame, ids: pl.Series) -> FloatArray:
    """Return, of each item, the share of pairs of an answer of each log that are the same."""
    shares = [
        log.filter(pl.col("id").is_in(ids.implode()))
        .group_by("id", "answer", maintain_order=True)
        .agg(pl.len().alias("n"))
        .with_columns(share=pl.col("n") / pl.col("n").sum().over("id"))
        for log in (a, b)
    ]
    alike = shares[0].join(shares[1], on=["id", "answer"], nulls_equal=True, maintain_order="left")
    sums = alike.group_by("id", maintain_order=True).agg(
        (pl.col("share") * pl.col("share_right")).sum().alias("alike")
    )
    found = pl.DataFrame({"id": ids}).join(sums, on="id", how="left", maintain_order="left")
    return found["alike"].fill_null(0.0).to_numpy()


def _mean(values: FloatArray, cluster: IntArray) -> Estimate:
    """Return a mean with Student's interval over clusters; NaN without values."""
    if not values.size:
        return Estimate(math.nan, math.nan, math.nan, 0, 0, _METHOD)
    _, code = np.unique(cluster, return_inverse=True)
    mean = float(values.mean())
    influence = np.bincount(code, (values - mean) / values.size).astype(np.float64)
    return _estimate(mean, influence, values.size)
