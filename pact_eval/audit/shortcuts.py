"""Check "shortcuts": references that a bag of words predicts without the evidence.

No check of form can see that a word of the question, of an answer or of a filler sentence tells
the answer. Three *views* of a record are compared with each other: the question alone (instructions
and answers), the context without its two focus sentences, and the full context. A linear model
learns from some source families and answers the records of the others; what counts is how far it
comes from a mere guess towards the best that any function of that text could reach.

Logistic regression on sparse rows, and folds that keep groups together.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar, get_args

import numpy as np
import numpy.typing as npt
import polars as pl
from threadpoolctl import threadpool_limits

from pact_eval._json import Json, cut, dumps
from pact_eval._typing import BoolArray, FloatArray, IntArray
from pact_eval.audit.context import DataContext
from pact_eval.audit.findings import Check, CheckResult, Collector
from pact_eval.data.ablation import ablate
from pact_eval.data.certificates import parse_certificate
from pact_eval.data.index import Index
from pact_eval.data.processes import in_threads
from pact_eval.data.records import FieldKind, Record
from pact_eval.errors import Place
from pact_eval.numbers import UNDEFINED
from pact_eval.progress import step, tracked
from pact_eval.stats.estimate import ClusterText, Estimate
from pact_eval.stats.linearised import linear_inference, linearised_ratio
from pact_eval.stats.rates import p_value_above

if TYPE_CHECKING:
    import scipy.sparse as sp


_MOST_STEPS: Final = 200
_SLOPE_AT_END: Final = 1e-3


def fit_logistic(matrix: sp.csr_array[np.float32], label: BoolArray) -> FloatArray:
    """Return the weights of a logistic regression with a penalty of half their sum of squares.

    They minimise sum_i -log p(label_i) + |w|^2 / 2 over w and an intercept, which is not penalised
    (scikit-learn's `LogisticRegression` with C = 1). L-BFGS ends if no slope of the mean exceeds
    0.001: the last digits of the weights do not matter here.

    Args:
        matrix: (n, d) rows.
        label: (n,) of the rows.

    Returns:
        (d,) weights, without the intercept.

    Examples:
        >>> from scipy.sparse import csr_array
        >>> rows = csr_array(np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float32))
        >>> fit_logistic(rows, np.array([True, True, False, False])).round(1)
        array([ 0.7, -0.7])
    """
    from scipy import optimize, special

    sign, columns = np.where(label, 1.0, -1.0), matrix.T

    def loss_and_slopes(point: FloatArray) -> tuple[float, FloatArray]:
        weights = point[:-1]
        margin = sign * (matrix @ weights.astype(np.float32) + point[-1])
        pull = -sign * special.expit(-margin)
        slopes = np.append(columns @ pull.astype(np.float32) + weights, pull.sum())
        loss = weights @ weights / 2 - special.log_expit(margin).sum()
        return loss / len(label), slopes / len(label)

    fit = optimize.minimize(
        loss_and_slopes,
        np.zeros(matrix.shape[1] + 1),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _MOST_STEPS, "gtol": _SLOPE_AT_END, "ftol": 1e-14},
    )
    return np.asarray(fit.x[:-1], dtype=np.float64)


def group_folds(group: IntArray, n_folds: int) -> IntArray:
    """Return the fold of each row: the largest group first, into the fold with the fewest rows.

    Args:
        group: (n,) group of each row, from 0.
        n_folds: number of folds; at most that of groups.

    Examples:
        >>> group_folds(np.array([0, 0, 0, 1, 1, 2]), 2)
        array([0, 0, 0, 1, 1, 1])
    """
    sizes = np.bincount(group)
    fold_of, filled = np.zeros(len(sizes), dtype=np.int64), np.zeros(n_folds, dtype=np.int64)
    for each in np.argsort(sizes, kind="stable")[::-1]:
        fold_of[each] = filled.argmin()
        filled[fold_of[each]] += sizes[each]
    folds: IntArray = fold_of[group]
    return folds


View = Literal["question", "ablated context", "full context"]
"""What is read of a record besides its answers: the instructions alone, or a context too."""

_MOST_WORDS = 8_192  # crossed with answers: those of the most source families
_MOST_SLOTS = 256  # positions and keys, likewise
_LEAST_SPREAD = 2  # source families; what occurs in one alone cannot predict another
_LEAST_ROWS = 3  # candidates that a crossed clue must occur in
_MOST_TEXTS = 1_000  # of which the words are kept
_CROSSED_VALUE = 0.5  # a row has hundreds of crossed clues; each is trusted less than the others

_WORD = re.compile(r"[^\W_]+")

_Named: TypeAlias = tuple[str, str]
_Name = TypeVar("_Name", bound=Hashable)


@dataclass(frozen=True, slots=True)
class WordItem:
    """A record as sets of word numbers.

    Attributes:
        kind: of the question.
        source_family: its number.
        reference: index of the right answer.
        keys: of the answers.
        words_of: of each answer, the words of its "key" and of its "description".
        lengths: of each answer in characters: of the description, or of the key without one.
        words: by view, (2, n) numbers of the context's words and how often each occurs there;
            under "question" those of the instructions. The ablated context is missing if it
            could not be made.
        texts: by view, a digest of everything that is read in it.
    """

    kind: FieldKind
    source_family: int
    reference: int
    keys: tuple[str, ...]
    words_of: tuple[Mapping[str, frozenset[int]], ...]
    lengths: tuple[int, ...]
    words: Mapping[View, IntArray]
    texts: Mapping[View, bytes]

    def own_words(self) -> list[frozenset[int]]:
        """Return the words of each answer that not every answer has."""
        every = [parts["key"] | parts["description"] for parts in self.words_of]
        return [words - frozenset.intersection(*every) for words in every]


@dataclass(frozen=True, slots=True)
class Clues:
    """Features that a linear model may see.

    Attributes:
        matrix: one row per candidate, in the order of the records and of their answers.
        names: of each column; several may share one, such as a word crossed with many answers.
    """

    matrix: sp.csr_array[np.float32]
    names: list[str]


def read_words(index: Index, rows: Iterable[int]) -> tuple[list[WordItem], list[str]]:
    """Read records as words.

    Args:
        index: the dataset.
        rows: rows of its frame.

    Returns:
        The records, and every word that occurs in them by its number.

    Raises:
        InputError: a file has changed since the index was built.
    """
    numbers: dict[str, int] = {}
    # The members of a pair share most texts, and so do a context and its ablation.
    read = functools.lru_cache(_MOST_TEXTS)(functools.partial(_words_of_text, numbers))
    source_families: dict[str, int] = {}
    items = []
    for located in index.read(rows):
        code = source_families.setdefault(located.record.source_family, len(source_families))
        items.append(_item(located.record, code, functools.partial(_words_of, read)))
    return items, list(numbers)


def without_focus(record: Record) -> Record | None:
    """Return the record without its two focus sentences, in either wording.

    Returns:
        The record; None if there is no certificate or a sentence cannot be deleted.

    Examples:
        >>> from pact_eval.data.records import parse_record
        >>> record = parse_record({
        ...     "id": "a-base", "family": "a", "source_family": "s", "split": "train",
        ...     "domain": "travel", "variant": "base",
        ...     "input": {"state": "The gate is open.", "questions": {"decision": {
        ...         "type": "noul", "instructions": "Is the gate open?"}}},
        ...     "reference": {"target": True}})
        >>> without_focus(record) is None
        True
    """
    if record.certificate is None:
        return None
    try:
        for sentence in parse_certificate(record.certificate).focus:
            record = replace(record, state=ablate(record, sentence).state)
    except (ValueError, RecursionError):
        return None
    return record


def _words_of_text(numbers: dict[str, int], text: str) -> list[int]:
    """Return the words of a text without case; new ones get the next numbers."""
    return [numbers.setdefault(word, len(numbers)) for word in _WORD.findall(text.casefold())]


def _words_of(read: Callable[[str], list[int]], value: Json) -> list[int]:
    """Return the words of any JSON value, keys and numbers too."""
    rest, words = [value], []
    while rest:
        item = rest.pop()
        if isinstance(item, dict):
            rest += [*item, *item.values()]
        elif isinstance(item, list):
            rest += item
        elif item is not None:
            words += read(item if isinstance(item, str) else dumps(item))
    return words


def _item(record: Record, source_family: int, words: Callable[[Json], list[int]]) -> WordItem:
    field, ablated = record.field, without_focus(record)
    views: dict[View, Json] = {"question": field.instructions, "full context": record.state}
    if ablated is not None:
        views["ablated context"] = ablated.state
    words_of = tuple(
        {
            "key": frozenset(words(answer.key)),
            "description": frozenset(words(answer.description)),
        }
        for answer in field.answers
    )
    # numpy's `unique` takes five times as long for so few words.
    counts = {view: sorted(Counter(words(value)).items()) for view, value in views.items()}
    texts = [text for answer in field.answers for text in (answer.key, answer.description)]
    question: list[Json] = [field.kind, field.instructions, *texts]
    return WordItem(
        kind=field.kind,
        source_family=source_family,
        reference=-1 if record.reference is None else record.reference,
        keys=tuple(answer.key for answer in field.answers),
        words_of=words_of,
        lengths=tuple(len(answer.description or answer.key) for answer in field.answers),
        words={
            view: np.array(pairs, dtype=np.int64).reshape(-1, 2).T for view, pairs in counts.items()
        },
        texts={view: _digest([*question, value]) for view, value in views.items()},
    )


def _digest(value: list[Json]) -> bytes:
    return hashlib.blake2b(dumps(value).encode(), digest_size=16).digest()


def candidate_clues(items: Sequence[WordItem], words: Sequence[str], view: View) -> Clues:
    """Return the clues of every candidate in a view.

    Args:
        items: records that have the view; at least one.
        words: every word by its number.
        view: what is read; the instructions are read in every view.

    Returns:
        One row a candidate.

    Examples:
        >>> item = WordItem("choice", 0, 0, ("red", "blue"), (
        ...     {"key": frozenset({0}), "description": frozenset()},
        ...     {"key": frozenset({1}), "description": frozenset()}),
        ...     (3, 4), {"question": np.array([[1], [1]])}, {"question": b""})
        >>> clues = candidate_clues([item], ["red", "blue"], "question")
        >>> [clues.names[column] for column in clues.matrix[[0]].indices]
        ['position 1', 'the shortest answer', '"red" in the answer']
    """
    import scipy.sparse as sp

    parts: tuple[View, ...] = ("question",) if view == "question" else ("question", view)
    with step("Clues", 1 + len(parts)):
        columns: dict[_Named, int] = {}
        rows = [
            [columns.setdefault(clue, len(columns)) for clue in clues]
            for item in tracked(items, "Finding clues", "records", counts=1)
            for clues in _plain_clues(item, words, parts)
        ]
        crossed = [_cross_words(items, words, part) for part in parts]
    blocks = [_matrix(rows, len(columns), 1.0), *(clues.matrix for clues in crossed)]
    names = [name for _, name in columns]
    matrix = sp.csr_array(sp.hstack(blocks, format="csr", dtype=np.float32))
    return Clues(matrix, names + [name for clues in crossed for name in clues.names])


def _plain_clues(item: WordItem, words: Sequence[str], parts: Sequence[View]) -> list[list[_Named]]:
    """Return the clues of each answer that are not crossed, (scope, name), most of them by kind."""
    lengths, every_own = item.lengths, item.own_words()
    named: list[list[_Named]] = []
    for place, own in enumerate(every_own):
        clues = [(f"{item.kind} of {len(lengths)}", f"position {place + 1}")]
        if lengths.count(lengths[place]) == 1:
            for name, end in (("longest", max(lengths)), ("shortest", min(lengths))):
                clues += [(item.kind, f"the {name} answer")] if lengths[place] == end else []
        named.append(
            clues + [("", f"{_quoted(words[word])} in the answer") for word in sorted(own)]
        )
    for part in parts:
        counts = dict(zip(*item.words[part].tolist(), strict=True))
        for what in ("key", "description"):
            of_answers = [
                own & words_of[what] for own, words_of in zip(every_own, item.words_of, strict=True)
            ]
            times = [min((counts.get(word, 0) for word in own), default=0) for own in of_answers]
            for clues, own, n in zip(named, of_answers, times, strict=True):
                told = {
                    f"a word of the answer's {what} in the {part}": bool(own & counts.keys()),
                    f"the answer's {what} in the {part}": n > 0,
                    f"the answer's {what} more often than others in the {part}": n > min(times),
                }
                clues += [(item.kind, name) for name, is_there in told.items() if is_there]
        shares = [len(own & counts.keys()) / max(1, len(own)) for own in every_own]
        for clues, own, share in zip(named, every_own, shares, strict=True):
            if share == max(shares) and shares.count(share) == 1:
                clues.append((item.kind, f"the most words shared with the {part}"))
            both = sorted(own & counts.keys())
            clues += [("", f"{_quoted(words[word])} in answer and {part}") for word in both]
    return named


def _cross_words(items: Sequence[WordItem], words: Sequence[str], part: View) -> Clues:
    """Return, for every candidate, its position and its key crossed with the words of a text."""
    slots = _widespread(
        ((item.source_family, slot) for item in items for some in _slots(item) for slot in some),
        _MOST_SLOTS,
    )
    chosen = _widespread(
        ((item.source_family, word) for item in items for word in item.words[part][0].tolist()),
        _MOST_WORDS,
    )
    number = np.full(len(words), -1)
    number[list(chosen)] = list(chosen.values())
    rows = []
    for item in tracked(items, "Crossing words", "records", counts=1):
        text = number[item.words[part][0]]
        text = text[text >= 0]
        for some in _slots(item):
            starts = [slots[slot] * len(chosen) for slot in some if slot in slots]
            rows.append(np.concatenate([text[:0], *(start + text for start in starts)]))
    matrix = _matrix(rows, len(slots) * len(chosen), _CROSSED_VALUE)
    kept = np.flatnonzero(np.bincount(matrix.indices, minlength=matrix.shape[1]) >= _LEAST_ROWS)
    names = [f"{_quoted(words[word])} in the {part}" for word in chosen]
    return Clues(matrix[:, kept], [names[column % len(chosen)] for column in kept])


def _slots(item: WordItem) -> Iterator[tuple[Hashable, ...]]:
    """Yield what the words of a text are crossed with, by answer."""
    for place, key in enumerate(item.keys):
        yield ((item.kind, place), key) if item.kind == "choice" else ((item.kind, place),)


def _widespread(pairs: Iterable[tuple[int, _Name]], most: int) -> dict[_Name, int]:
    """Number the names that occur in several source families, those of the most of them."""
    families: dict[_Name, set[int]] = {}
    for source_family, name in pairs:
        families.setdefault(name, set()).add(source_family)
    names = sorted(families, key=lambda name: -len(families[name]))[:most]
    kept = [name for name in names if len(families[name]) >= _LEAST_SPREAD]
    return {name: number for number, name in enumerate(kept)}


def _matrix(
    rows: Sequence[npt.ArrayLike], n_columns: int, value: float
) -> sp.csr_array[np.float32]:
    """Return a sparse matrix with a value at the columns of each row."""
    import scipy.sparse as sp

    columns = [np.asarray(row, dtype=np.int32) for row in rows]
    ends = np.cumsum([0, *map(len, columns)], dtype=np.int32)
    indices = np.concatenate(columns)
    data = np.full(len(indices), value, dtype=np.float32)
    return sp.csr_array((data, indices, ends), shape=(len(rows), n_columns))


def _quoted(word: str) -> str:
    return f'"{cut(word, 40)}"'


_CODES: Final[Mapping[View, str]] = {
    "question": "question-shortcut",
    "ablated context": "ablated-shortcut",
}
_GAIN_OF_AN_ERROR = 0.10  # that the lower end of the interval must exceed
_GAIN_OF_A_WARNING = 0.0
_GAIN_OF_CONTEXT_WORDS = 0.5  # ... with the evidence, where some gain is expected
_GAIN_OF_A_SOLVED_CONTEXT = 0.9
_NET_SHARE_OF_ANSWER_WORDS = 0.5
_LEVEL = 0.001  # of the exact tests of what is found with the evidence
_FAMILIES_OF_AN_ERROR = 4  # source families; a leak in fewer is suspected at most
_LEAST_POINTS = 0.01  # accuracy above the baseline; less is ignored, however certain
_FOLDS = 5
_ROUNDING = 1e-9
_MOST_BYTES = 64_000_000  # lines that are read; of long records fewer than `max_records`


@dataclass(frozen=True, slots=True)
class Probe:
    r"""Accuracy of a bag of words in one view.

    .. math:: gain = \frac{accuracy - baseline}{ceiling - baseline}

    Accuracies are shares of the same records, in 0..1. A gain of 0 equals the
    baseline, 1 equals the ceiling, and below 0 the model is worse than the baseline. The members of
    a pair share their question, so no function of it is right in both: its ceiling is about one
    half. Compare views and datasets by the gain, not by the accuracy.

    Attributes:
        view: what was read.
        accuracy: share of records whose reference was scored highest, by a model that learnt from
            other source families; of equal scores the first answer counts.
        majority: accuracy of the most frequent position among the same training records of the
            same kind and number of answers.
        chance: mean of 1 / number of answers. Where references are dealt out evenly, the training
            folds' majority is the test fold's minority, and `majority` falls below chance.
        ceiling: best accuracy of any function of the text: among records with the very same text,
            those with their most frequent reference are right.
        difference: accuracy - baseline.
        gain: as above; NaN with a reason if the ceiling is not higher than the baseline.
        telling: clues that raised the references most above the other answers, out of fold.
    """

    view: View
    accuracy: Estimate
    majority: float
    chance: float
    ceiling: float
    difference: Estimate
    gain: Estimate
    telling: tuple[str, ...]

    @property
    def baseline(self) -> float:
        """Accuracy of the baseline: the better of `majority` and `chance`."""
        return max(self.majority, self.chance)

    @property
    def p_value(self) -> float:
        """P-value of the exact binomial test of the accuracy against the baseline, one-sided."""
        hits = round(self.accuracy.value * self.accuracy.n)
        return float(p_value_above(hits, self.accuracy.n, self.baseline))

    @property
    def reason(self) -> str | None:
        """Reason why there is no gain; None if there is one."""
        return self.gain.reason if math.isnan(self.gain.value) else None


@dataclass(frozen=True, slots=True)
class AnswerWords:
    """Records whose context has all own words of one answer, and of no other answer.

    Own words are those that not every answer of the question has.

    Attributes:
        part: which words: of the answers' keys, or of their descriptions.
        records: records that were read.
        right: records where that answer is the right one.
        wrong: records where it is a wrong one.
        p_value: of the exact binomial test of `right` of both against chance, one-sided.
    """

    part: Literal["key", "description"]
    records: int
    right: int
    wrong: int
    p_value: float

    @property
    def tells_the_answer(self) -> bool:
        """Whether the right answer is named far more often than by chance, and than wrong ones."""
        net_share = (self.right - self.wrong) / max(1, self.records)
        return net_share > _NET_SHARE_OF_ANSWER_WORDS and self.p_value < _LEVEL

    def __str__(self) -> str:
        right, wrong = self.right / self.records, self.wrong / self.records
        return (
            f"{right:.1%} of {self.records:,} contexts have the words of the right answer's "
            f"{self.part} and of no other, {wrong:.1%} those of a wrong answer alone; exact p "
            f"against chance {self.p_value:.1g}"
        )


@dataclass(frozen=True, slots=True)
class Shortcuts:
    """Measurements of `check_shortcuts`.

    Attributes:
        probes: one a view: question, ablated context, full context.
        records: records that were read.
        records_in_all: healthy records of the dataset; more than `records` where sampled.
        source_families: of the records that were read.
        not_ablated: records left out of the ablated view, for want of a usable certificate.
        answer_words: one for keys and one for descriptions.
    """

    probes: tuple[Probe, ...]
    records: int
    records_in_all: int
    source_families: int
    not_ablated: int
    answer_words: tuple[AnswerWords, ...] = ()

    @property
    def scope(self) -> str:
        """What was read, in words with counts."""
        every = (
            f", drawn from {self.records_in_all:,}" if self.records < self.records_in_all else ""
        )
        left_out = f"; {self.not_ablated:,} without ablation" if self.not_ablated else ""
        families = f"{self.source_families:,} source families"
        return f"{self.records:,} records of {families}{every}{left_out}"

    @property
    def text(self) -> str:
        """What was measured, in a few words."""
        sampled = ""
        if self.records < self.records_in_all:
            sampled = f"{self.records:,} of {self.records_in_all:,} records; "
        gains = ", ".join(
            f"{probe.view} {UNDEFINED if probe.reason else f'{100 * probe.gain.value:.0f}%'}"
            for probe in self.probes
        )
        return f"{sampled}gain {gains}"


def check_shortcuts(
    index: Index, findings: Collector, *, rng: np.random.Generator, max_records: int = 20_000
) -> CheckResult:
    """Probe the question, the ablated context and the full context for the reference.

    A finding takes a point of accuracy above the baseline, and a lower end of the gain's 95%
    interval above 10% (error) or 0 (warning). The interval is that of Student's t over source
    families, see `pact_eval.stats.LinearInference`; an error takes four of them.
    docs/statistics.md says how often shuffled references are called a shortcut. The full context
    holds the evidence, so a gain is expected there. Above 50% it is a note, above 90% a warning,
    unless something is found without the evidence. So is an answer that the context names, see
    `AnswerWords`. Both take an exact binomial test at 0.001.

    Args:
        index: the dataset.
        findings: takes what is found.
        rng: draws the sample.
        max_records: beyond it (or 64 MB) complete families are drawn, of every source family first.

    Returns:
        The result; `measured` is a `Shortcuts`. With one source family there is no other to learn
        from, and the check is skipped.

    Raises:
        InputError: a file has changed since the index was built.

    Examples:
        >>> from pact_eval.data.index import index_of_records
        >>> result = check_shortcuts(
        ...     index_of_records([]), Collector("shortcuts", 5), rng=np.random.default_rng(7))
        >>> result.measured.probes[0].reason
        'no records'
    """
    rows = _sample(index.frame, max_records, rng)
    views: tuple[View, ...] = get_args(View)
    with step("Bags of words", 1 + len(views)):
        with step("words", counts=1):
            items, words = read_words(index, rows)
        probes = []
        for view in views:
            with step(view, 2, counts=1):
                probes.append(_probe(items, words, view))
    place = Place(", ".join(file.name for file in index.files))
    is_found = False
    for probe in probes:  # the full context last: a gain is expected there
        code, with_evidence = _verdict(probe), probe.view == "full context"
        if code is not None and not (with_evidence and is_found):
            limit = f"a gain of {_GAIN_OF_CONTEXT_WORDS:.0%} at most"
            expected = limit if with_evidence else "no accuracy above the baseline"
            findings.add(code, place, expected, _found(probe))
            is_found = True
    answer_words = tuple(_answer_words(items, part) for part in ("key", "description"))
    for named in answer_words:
        if named.tells_the_answer:
            expected = "contexts that name wrong answers as often as the right one"
            findings.add("answer-in-context", place, expected, str(named))
    measured = Shortcuts(
        probes=tuple(probes),
        records=len(items),
        records_in_all=len(index),
        source_families=len({item.source_family for item in items}),
        not_ablated=sum("ablated context" not in item.words for item in items),
        answer_words=answer_words,
    )
    skipped = "one source" if measured.source_families == 1 else None
    return findings.result(measured.scope, measured, skipped=skipped)


def _sample(frame: pl.DataFrame, max_records: int, rng: np.random.Generator) -> list[int]:
    """Return rows in file order: all, or those of families drawn at random."""
    families = frame.group_by("family", maintain_order=True).agg(
        pl.col("source_family").first(),
        pl.len().cast(pl.UInt64).alias("records"),
        pl.col("length").cast(pl.UInt64).sum().alias("bytes"),
    )
    drawn = families[rng.permutation(families.height)].with_columns(
        first=pl.int_range(pl.len()).over("source_family") == 0
    )
    kept = drawn.sort("first", descending=True, maintain_order=True).filter(
        pl.col("records").cum_sum() <= max_records, pl.col("bytes").cum_sum() <= _MOST_BYTES
    )
    return frame["family"].is_in(kept["family"].implode()).arg_true().to_list()


def _probe(every: Sequence[WordItem], words: Sequence[str], view: View) -> Probe:
    """Answer every record from one view, out of fold, and compare that with the baseline."""
    items = [item for item in every if view in item.words]
    names, cluster = np.unique([item.source_family for item in items], return_inverse=True)
    if len(names) < 2:
        return _undefined_probe(view, len(items), len(names))
    with step("clues", counts=1):
        clues = candidate_clues(items, words, view)
    with step("fits", counts=1):
        answered, majority, telling = _predict(items, clues, cluster)
    reference = np.array([item.reference for item in items])
    texts = [item.texts[view] for item in items]
    best = _most_frequent(texts, reference, np.ones(len(items), dtype=bool))
    hit, majority_hit, best_hit = (
        (guess == reference).astype(float) for guess in (answered, majority, best)
    )
    chance = np.array([1 / len(item.keys) for item in items])
    guess_hit = majority_hit if majority_hit.sum() >= chance.sum() else chance
    share = functools.partial(_share, cluster=cluster)
    gain = share(hit - guess_hit, best_hit - guess_hit)
    if math.isnan(gain.value):
        gain = replace(gain, reason=ClusterText("no function of this text beats the baseline"))
    return Probe(
        view=view,
        majority=float(majority_hit.mean()),
        chance=float(chance.mean()),
        ceiling=float(best_hit.mean()),
        telling=telling,
        accuracy=share(hit, np.ones_like(hit)),
        difference=share(hit - guess_hit, np.ones_like(hit)),
        gain=gain,
    )


def _share(above: FloatArray, of: FloatArray, cluster: IntArray) -> Estimate:
    """Return the ratio of two sums over records with its interval over source families."""
    families = int(cluster.max()) + 1
    if of.sum() <= _ROUNDING:
        return Estimate(math.nan, math.nan, math.nan, len(of), families)
    linear = linearised_ratio(above, of, cluster, families)
    # A source family without headroom counts like any other: its guesses were right or wrong too.
    linear = replace(linear, rows=np.ones(families))
    value = float(above.sum() / of.sum())
    return linear_inference(value, linear, n=len(of), outer=True).estimate()


def _undefined_probe(view: View, n: int, n_families: int) -> Probe:
    """Return a probe of which nothing is defined, and why."""
    reason = "one source family: no other to learn from"
    if n == 0:
        reason = (
            "no record with a usable certificate" if view == "ablated context" else "no records"
        )
    nothing = Estimate(math.nan, math.nan, math.nan, n, n_families, None, ClusterText(reason))
    return Probe(view, nothing, math.nan, math.nan, math.nan, nothing, nothing, ())


def _most_frequent(groups: Sequence[Hashable], reference: IntArray, counted: BoolArray) -> IntArray:
    """Return, for every record, the most frequent reference of its group among those counted.

    Ties, and groups of which none is counted, take the first answer.
    """
    codes: dict[Hashable, int] = {}
    group = np.array([codes.setdefault(key, len(codes)) for key in groups])
    counts = np.zeros((len(codes), int(reference.max(initial=0)) + 1), dtype=np.int64)
    np.add.at(counts, (group[counted], reference[counted]), 1)
    most: IntArray = counts.argmax(axis=1)[group]
    return most


def _predict(
    items: Sequence[WordItem], clues: Clues, cluster: IntArray
) -> tuple[IntArray, IntArray, tuple[str, ...]]:
    """Return each record's best answer and majority answer, out of fold, and the telling clues."""
    reference = np.array([item.reference for item in items])
    n_answers = np.array([len(item.keys) for item in items])
    record = np.repeat(np.arange(len(items)), n_answers)
    place = np.concatenate([np.arange(n) for n in n_answers])
    label = place == reference[record]
    cells = [(item.kind, len(item.keys)) for item in items]
    score = np.full((len(items), int(n_answers.max())), -np.inf)
    majority = np.zeros(len(items), dtype=np.int64)
    raised = np.zeros(len(clues.names))
    folds = group_folds(cluster, min(_FOLDS, int(cluster.max()) + 1))
    learns = [folds != fold for fold in range(folds.max() + 1)]

    def fitted(learnt: BoolArray) -> FloatArray:
        rows = np.flatnonzero(learnt[record])
        return fit_logistic(clues.matrix[rows], label[rows])

    # One thread of BLAS per fit: the sums over weights are short, and idle threads cost far more
    # than they give. The setting is that of the process, so no fit may change it.
    with threadpool_limits(limits=1):
        fits = in_threads(fitted, learns)
        every = [*tracked(fits, "Fitting a bag of words", "fits", total=len(learns))]
    for learnt, weights in zip(learns, every, strict=True):
        rows = np.flatnonzero(~learnt[record])
        held = clues.matrix[rows]
        score[record[rows], place[rows]] = held @ weights
        raised += weights * (held.T @ (label[rows] - 1 / n_answers[record[rows]]))
        majority[~learnt] = _most_frequent(cells, reference, learnt)[~learnt]
    return score.argmax(axis=1), majority, _most_telling(clues.names, raised)


def _most_telling(names: Sequence[str], raised: FloatArray) -> tuple[str, ...]:
    """Return the four words and the two other clues that raised the references most."""
    total: dict[str, float] = {}
    for name, value in zip(names, raised, strict=True):
        total[name] = total.get(name, 0.0) + float(value)
    best = sorted((name for name in total if total[name] > 0), key=lambda name: -total[name])
    words = [name for name in best if name.startswith('"')][:4]
    others = [name for name in best if not name.startswith('"')][:2]
    return tuple(sorted([*words, *others], key=best.index))


def _verdict(probe: Probe) -> str | None:
    """Return the code of a finding, or None."""
    gain = probe.gain
    # NaN compares as False: a probe of which nothing is defined is not a finding.
    if not (probe.difference.value >= _LEAST_POINTS):
        return None
    # The same gain in every source family has no interval, and is the clearest finding of all.
    same = gain.clusters > 1 and math.isnan(gain.low)
    low = gain.value if same else gain.low
    if probe.view == "full context":
        if not (low > _GAIN_OF_CONTEXT_WORDS and probe.p_value < _LEVEL):
            return None
        return "context-solved" if low > _GAIN_OF_A_SOLVED_CONTEXT else "context-words"
    if low > _GAIN_OF_AN_ERROR and gain.clusters >= _FAMILIES_OF_AN_ERROR:
        return _CODES[probe.view]
    return "shortcut-suspected" if low > _GAIN_OF_A_WARNING else None


def _answer_words(items: Sequence[WordItem], part: Literal["key", "description"]) -> AnswerWords:
    """Count the records whose context has the own words of one answer alone."""
    right, chances = 0, []
    for item in items:
        said = {*item.words["full context"][0].tolist()}
        own = [
            words & words_of[part]
            for words, words_of in zip(item.own_words(), item.words_of, strict=True)
        ]
        named = [place for place, words in enumerate(own) if words and words <= said]
        if len(named) == 1:
            right += named[0] == item.reference
            chances.append(1 / len(own))
    chance = float(np.mean(chances)) if chances else 1.0
    p_value = float(p_value_above(right, len(chances), chance))
    return AnswerWords(part, len(items), right, len(chances) - right, p_value)


def _found(probe: Probe) -> str:
    gain = probe.gain
    ends = f"{gain.low:.0%} to {gain.high:.0%}"
    if math.isnan(gain.low):
        ends = "the same in every source family"
    return (
        f"{probe.view}: a bag of words finds {probe.accuracy.value:.1%} of the references, the "
        f"baseline {probe.baseline:.1%}, the ceiling {probe.ceiling:.1%}; normalised gain "
        f"{gain.value:.0%} ({ends}); words: {', '.join(probe.telling)}"
    )


def _run(context: DataContext, findings: Collector) -> CheckResult:
    return check_shortcuts(context.index, findings, rng=context.rng())


CHECK: Final[Check[DataContext]] = Check(
    name="shortcuts",
    question="Does a bag of words find the reference without the evidence?",
    run=_run,
    apart=True,
    needs=("records",),
    codes={
        "question-shortcut": ("error", "The question alone predicts the answer."),
        "ablated-shortcut": ("error", "The context without its evidence predicts the answer."),
        "shortcut-suspected": ("warning", "A bag of words does a little better than the baseline."),
        "answer-in-context": ("warning", "Most contexts name the right answer and no other."),
        "context-solved": ("warning", "A bag of words of the context finds nearly all answers."),
        "context-words": ("note", "A bag of words of the context is far above the baseline."),
    },
)
