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

Two logs or runs, read for drift: the same items, groups and names of answers in both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np
import polars as pl

from pact_eval._files import is_url
from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.errors import InputError, counted
from pact_eval.evaluation.conclusions.order import CHANGES
from pact_eval.evaluation.joins import has_lines_alone
from pact_eval.importing.answers import LogAnswers, answers_of_log, answers_of_run
from pact_eval.importing.import_run import is_log_folder
from pact_eval.importing.source import ImportOptions
from pact_eval.results import Note, Result
from pact_eval.runs.provenance import NAME
from pact_eval.runs.seal import PREDICTIONS
from pact_eval.stats._quantiles import t_quantile
from pact_eval.stats.estimate import FEWEST, LEVEL, Estimate, Method
from pact_eval.stats.group_permutation import group_permutation_test
from pact_eval.stats.multiplicity import holm
from pact_eval.stats.rates import few_clusters, rate_estimate, without_interval

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
    for column in ("family", "question"):
        both = (
            first.select("id", column).unique().join(second.select("id", column).unique(), on="id")
        )
        other = both.filter(pl.col(column) != pl.col(f"{column}_right")).sort("id")
        if len(other):
            item, one, another = other.row(0)
            raise InputError(
                f"{item} has the {column} {one!r} in {names[0]} and {another!r} in {names[1]}"
            )
    shifts = [*_shifts(first, second, below, np.random.default_rng(seed))]
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


def _shifts(
    a: pl.DataFrame, b: pl.DataFrame, below: float | None, rng: np.random.Generator
) -> Iterator[Shift]:
    """Yield every number that is compared, with its p-value before adjustment."""
    frame = pl.concat([a, b])
    of_second = np.arange(len(frame)) >= len(a)
    clusters = frame["family"].rank("dense").to_numpy().astype(np.int64) - 1

    def shift(
        what: What, values: FloatArray | BoolArray, rows: BoolArray, name: str = "", asked: str = ""
    ) -> Iterator[Shift]:
        """Yield the difference of the means of some rows; nothing if a log has none of them."""
        second, cluster = of_second[rows], clusters[rows]
        numbers = np.asarray(values, dtype=np.float64)[rows]
        if second.all() or not second.any():
            return
        change = _difference(numbers, second, cluster)
        test = group_permutation_test(
            numbers, cluster, second, higher=change.value > 0, rng=rng.spawn(1)[0]
        )
        before, after, p = test.outside, test.inside, min(1.0, 2 * test.p_value)
        yield Shift(what, name, asked, before, after, change, p)

    everything = np.ones(len(frame), dtype=np.bool_)
    questions, counts = frame["question"].to_numpy(), _counts(frame["question"])
    common = [name for name, n in counts if n >= _RARE]
    for name in common if len(counts) > 1 else ():
        yield from shift("question", questions == name, everything, name)
    for question in common:
        rows = questions == question
        answers = frame.filter(pl.Series(rows))["answer"].drop_nulls()
        of_answers = _counts(answers)
        often = [name for name, n in of_answers if n >= _RARE][:MOST_ANSWERS]
        if len(of_answers) == 2 and len(answers) == rows.sum():
            often = often[:1]  # of two answers, one says all
        for answer in often:
            given = frame["answer"].eq_missing(answer).to_numpy()
            yield from shift("answer", given, rows, answer, question if len(counts) > 1 else "")
    lacking = frame["answer"].is_null().to_numpy()
    if lacking.any() and not lacking.all():
        yield from shift("unanswered", lacking, everything)
    confidence = frame["confidence"].to_numpy()
    known = np.isfinite(confidence)
    yield from shift("confidence", confidence, known)
    if below is not None:
        yield from shift("below", confidence < below, known)


def _counts(names: pl.Series) -> list[tuple[str, int]]:
    """Return how often each name occurs, the most frequent first."""
    counts = names.value_counts().sort("count", names.name, descending=[True, False])
    return [(str(name), n) for name, n in counts.rows()]


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
    counts = [
        log.group_by("id", "answer").agg(pl.len().cast(pl.Int64).alias("n")) for log in (a, b)
    ]
    answers = counts[0].join(
        counts[1], on=["id", "answer"], how="full", coalesce=True, nulls_equal=True, suffix="_after"
    )
    n, m = (pl.col(name).fill_null(0) for name in ("n", "n_after"))
    both = (
        answers.group_by("id")
        .agg(
            rows=n.sum(),
            rows_after=m.sum(),
            alike=(n * (n - 1)).sum(),
            alike_after=(m * (m - 1)).sum(),
            agree=(n * m).sum(),
        )
        .filter((pl.col("rows") > 0) & (pl.col("rows_after") > 0))
        .join(a.group_by("id").agg(pl.col("family").first()), on="id")
        .sort("id")
    )
    if both.is_empty():
        return None
    pairs, pairs_after = (pl.col(name) * (pl.col(name) - 1) for name in ("rows", "rows_after"))
    noise = both.select(
        pl.mean_horizontal(
            pl.when(pairs > 0).then(1 - pl.col("alike") / pairs),
            pl.when(pairs_after > 0).then(1 - pl.col("alike_after") / pairs_after),
            ignore_nulls=True,
        ).cast(pl.Float64)
    ).to_series()
    changed = 1 - (both["agree"] / (both["rows"] * both["rows_after"])).to_numpy()
    _, cluster = np.unique(both["family"].to_numpy(), return_inverse=True)
    known = noise.is_not_null().to_numpy()
    beyond = changed[known] - noise.drop_nulls().to_numpy()
    sums, sizes = np.bincount(cluster, changed), np.bincount(cluster)
    share = rate_estimate(sums, sizes, squares=np.bincount(cluster, changed**2))
    return SameItems(
        items=len(both),
        changed=without_interval(share, few_clusters(share.clusters)),
        noise=float(noise.mean()) if known.any() else math.nan,  # type: ignore[arg-type]
        beyond=_mean(beyond, cluster[known]),
        ids=tuple(both.filter(pl.Series(changed > _MOST))["id"].to_list()),
    )


def _mean(values: FloatArray, cluster: IntArray) -> Estimate:
    """Return a mean with Student's interval over clusters; NaN without values."""
    if not values.size:
        return Estimate(math.nan, math.nan, math.nan, 0, 0, _METHOD)
    _, code = np.unique(cluster, return_inverse=True)
    mean = float(values.mean())
    influence = np.bincount(code, (values - mean) / values.size).astype(np.float64)
    return _estimate(mean, influence, values.size)


_LEAST_SHARED: Final = 2
_SHORT: Final = 8
_DIGITS: Final = 9
_NAMES: Final = pl.coalesce(
    pl.col("options").list.get(pl.col("at"), null_on_oob=True), (pl.col("at") + 1).cast(pl.String)
)
"""The answers: their names, or their numbers from 1."""


@dataclass(frozen=True)
class NoIds(Note):
    """A table whose rows are known by their line alone.

    Attributes:
        place: the table.
    """

    place: str

    def __str__(self) -> str:
        what = "rows have no ids, so no item is compared with itself"
        return f"{self.place}: {what}; name their column: --columns id=NAME"


@dataclass(frozen=True)
class SplitIds(Note):
    """Ids under which different things were asked about.

    Attributes:
        ids: their number.
        first: of them by name.
    """

    ids: int
    first: str

    def __str__(self) -> str:
        named = f"{counted(self.ids, 'id')} of several texts, such as {self.first}"
        return f"{named}: each text is an item of its own"


@dataclass(frozen=True)
class OtherOrders(Note):
    """Answers to items in another order of the options than the one that is compared.

    Attributes:
        answers: their number.
    """

    answers: int

    def __str__(self) -> str:
        return f"left out: {counted(self.answers, 'answer')} to items in another order of options"


def read_place(place: Path | str, options: ImportOptions | None = None) -> LogAnswers:
    """Read the answers of a log or a run.

    Args:
        place: a file or folder of a log, a run folder, or a URL.
        options: how a log is read; None detects it.

    Raises:
        PactError: it cannot be read, or an option has to decide.
    """
    path = Path(place)
    is_run = (path / NAME).exists() or (path / PREDICTIONS).exists()
    is_run |= is_url(str(place)) and not path.suffix
    if path.is_dir() and not is_run and not is_log_folder(path):
        message = f"{path}: not a run (it has no {NAME}) and not a log; name a run or a file in it"
        raise InputError(message)
    return answers_of_run(place) if is_run else answers_of_log(path, options or ImportOptions())


def compare_answers(
    before: LogAnswers, after: LogAnswers, *, below: float | None = None, seed: int = 0
) -> UnlabelledDrift:
    """Compare the answers of two logs or runs without using right answers.

    Args:
        before: the answers of one.
        after: those of the other.
        below: threshold of confidence: the share of answers below it is tested too. In (0, 1).
        seed: of the permutations.

    Raises:
        InputError: answers are named in one of them and only numbered in the other.
    """
    frames, notes = _matched(before, after)
    drift = compare_logs(*frames, names=(before.place, after.place), below=below, seed=seed)
    return replace(
        drift,
        logs=(_side(before), _side(after)),
        prompts=_other_prompts(before.rows, after.rows),
        warnings=notes,
    )


def _matched(
    before: LogAnswers, after: LogAnswers
) -> tuple[tuple[pl.DataFrame, pl.DataFrame], tuple[Note, ...]]:
    """Return the rows of both as `compare_logs` takes them, and what to know of their items."""
    sides = (before, after)
    notes: list[Note] = [NoIds(side.place) for side in sides if has_lines_alone(side.log)]
    rows = pl.concat([_rows_of(side, at) for at, side in enumerate(sides)])
    rows = rows.with_columns(family=_joint_families(rows), question=_question(rows))
    states = pl.col("state").filter(pl.col("state") != "").n_unique().over("id") > 1
    split = rows.filter(states)["id"].unique().sort()
    notes += [SplitIds(len(split), split[0])] if len(split) else []
    for several, name, further in (
        (states, "{} ({})", pl.col("state").str.slice(0, _SHORT)),
        (pl.col("question").n_unique().over("id") > 1, "{}/{}", pl.col("question")),
    ):
        own = pl.when(several).then(pl.format(name, "id", further))
        rows = rows.with_columns(id=own.otherwise("id"))
    first = pl.col("order").min().over("log", "id")
    in_order = rows.filter(pl.col("order").is_null() | (pl.col("order") == first))
    left_out = len(rows) - len(in_order)
    notes += [OtherOrders(left_out)] if left_out else []
    rows = in_order
    _check_names(rows, (before.place, after.place))
    rows = rows.with_columns(answer=_NAMES)
    a, b = (rows.filter(pl.col("log") == at).select(*LOG_COLUMNS) for at in range(2))
    return (a, b), tuple(notes)


def _rows_of(answers: LogAnswers, log: int) -> pl.DataFrame:
    """Return the rows of a log with its number; ids that are only lines are its own.

    They are numbered by what they say, so that the order of lines does not matter.
    """
    rows = answers.rows.with_columns(log=pl.lit(log))
    if not has_lines_alone(answers.log):
        return rows
    rows = rows.sort("question", "at", "confidence", "status")
    own = pl.format("{}:{}", "log", pl.int_range(pl.len()).cast(pl.String).str.zfill(_DIGITS))
    family = pl.when(pl.col("family") == pl.col("id")).then(own).otherwise("family")
    return rows.with_columns(family=family, id=own)


def _joint_families(rows: pl.DataFrame) -> pl.Series:
    """Return a family for each row: items with a family in common in either log have one.

    It has the name of its first item by name, so that the order of rows does not matter.
    """
    items = rows["id"].rank("dense").to_numpy().astype(np.int64) - 1
    families = rows["family"].rank("dense").to_numpy().astype(np.int64) - 1 + items.max() + 1
    size = int(families.max()) + 1
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = coo_array((np.ones(len(rows)), (items, families)), shape=(size, size))
    _, code = connected_components(edges, directed=False)
    named = rows.select("id").with_columns(code=pl.Series(code[items]))
    return named.select(pl.col("id").min().over("code")).to_series()


def _question(rows: pl.DataFrame) -> pl.Expr:
    """Return the questions, or none if items hardly share any."""
    items = rows.select(pl.struct("id", "question").n_unique()).item()
    shared = rows["question"].n_unique() <= items / _LEAST_SHARED
    return pl.col("question") if shared else pl.lit("")


def _check_names(rows: pl.DataFrame, places: tuple[str, str]) -> None:
    """Check that answers to a question have names in both logs, in none, or both here and there.

    Of runs without their data, only the answers of boolean questions have names.

    Raises:
        InputError: they have names in one of them.
    """
    named = pl.col("options").is_not_null()
    answered = rows.filter(pl.col("at").is_not_null())
    sides = answered.group_by("question", "log").agg(any=named.any(), all=named.all())
    unlike = sides.filter(pl.struct("any", "all").n_unique().over("question") > 1)
    if unlike.is_empty():
        return
    fewest = unlike.sort("question", "any", "all", "log").row(0, named=True)
    place, question = places[fewest["log"]], fewest["question"]
    asked = f" to {question}" if question else ""
    raise InputError(
        f"{place}: answers{asked} have numbers here, and names in the other; give both as logs of "
        "one format, or both as runs"
    )


def _other_prompts(a: pl.DataFrame, b: pl.DataFrame) -> tuple[str, ...]:
    """Return the questions of both logs whose texts differ."""
    first, second = (
        rows.filter(pl.col("wording") != "")
        .group_by("question")
        .agg(pl.col("wording").unique().sort())
        for rows in (a, b)
    )
    both = first.join(second, on="question")
    return tuple(both.filter(pl.col("wording") != pl.col("wording_right"))["question"].sort())


def _side(answers: LogAnswers) -> LogSide:
    """Return what is known of one log besides its answers."""
    rows = answers.rows
    calls = rows.unique("line", maintain_order=True)
    latency = calls["latency_ms"].drop_nulls().to_numpy()
    prices = calls["price"].drop_nulls()
    status = rows["status"]
    quantiles = np.quantile(latency, [0.5, 0.95]) if latency.size else (math.nan, math.nan)
    return LogSide(
        place=answers.place,
        model=answers.model,
        answers=len(rows),
        unanswered=float(status.is_not_null().mean() or 0.0),  # type: ignore[arg-type]
        refused=float((status == "refused").fill_null(value=False).mean() or 0.0),  # type: ignore[arg-type]
        latency_ms=(float(quantiles[0]), float(quantiles[1])),
        price=math.fsum(prices) / len(rows) if len(prices) else math.nan,
        labelled=answers.labelled,
    )
