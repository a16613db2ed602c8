"""Records as bags of words, and the clues that a linear model may take from them.

A *candidate* is a record and one of its answers, a row of the feature matrix. Its clues are what
the answer is (position, length, own words), which of its words also occur in the instructions or
in the context, and its position and its key crossed with the words of those texts.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from pact_eval._json import Json, dumps
from pact_eval._typing import IntArray
from pact_eval.data.ablation import ablate
from pact_eval.data.certificates import parse_certificate
from pact_eval.data.index import Index
from pact_eval.data.records import FieldKind, Record
from pact_eval.progress import step, tracked

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
    words = _Words()
    source_families: dict[str, int] = {}
    items = []
    for located in index.read(rows):
        code = source_families.setdefault(located.record.source_family, len(source_families))
        items.append(_item(located.record, code, words))
    return items, list(words.numbers)


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


class _Words:
    """Words, numbered as they occur.

    Attributes:
        numbers: of each word.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        # The members of a pair share most texts, and so do a context and its ablation.
        self._of_text = functools.lru_cache(_MOST_TEXTS)(self._numbered)

    def of(self, value: Json) -> list[int]:
        """Return the words of any JSON value, keys and numbers too, without case."""
        rest, words = [value], []
        while rest:
            item = rest.pop()
            if isinstance(item, dict):
                rest += [*item, *item.values()]
            elif isinstance(item, list):
                rest += item
            elif item is not None:
                words += self._of_text(item if isinstance(item, str) else dumps(item))
        return words

    def counted(self, value: Json) -> IntArray:
        """Return (2, n) numbers of the words of a value, ascending, and how often each occurs."""
        # numpy's `unique` takes five times as long for so few words.
        counts = sorted(Counter(self.of(value)).items())
        return np.array(counts, dtype=np.int64).reshape(-1, 2).T

    def _numbered(self, text: str) -> list[int]:
        numbers = self.numbers
        return [numbers.setdefault(word, len(numbers)) for word in _WORD.findall(text.casefold())]


def _item(record: Record, source_family: int, words: _Words) -> WordItem:
    field = record.field
    read: dict[View, Json] = {"question": field.instructions, "full context": record.state}
    ablated = without_focus(record)
    if ablated is not None:
        read["ablated context"] = ablated.state
    words_of = tuple(
        {
            "key": frozenset(words.of(answer.key)),
            "description": frozenset(words.of(answer.description)),
        }
        for answer in field.answers
    )
    question: list[Json] = [field.kind, field.instructions]
    for choice in field.answers:
        question += [choice.key, choice.description]
    return WordItem(
        kind=field.kind,
        source_family=source_family,
        reference=-1 if record.reference is None else record.reference,
        keys=tuple(answer.key for answer in field.answers),
        words_of=words_of,
        lengths=tuple(len(answer.description or answer.key) for answer in field.answers),
        words={view: words.counted(value) for view, value in read.items()},
        texts={view: _digest([*question, value]) for view, value in read.items()},
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
    parts: tuple[View, ...] = ("question",) if view == "question" else ("question", view)
    with step("Clues", 1 + len(parts)):
        blocks = [_plain(items, words, parts), *(_crossed(items, words, part) for part in parts)]
    matrix = sp.hstack([block.matrix for block in blocks], format="csr", dtype=np.float32)
    return Clues(sp.csr_array(matrix), [name for block in blocks for name in block.names])


def _plain(items: Sequence[WordItem], words: Sequence[str], parts: Sequence[View]) -> Clues:
    """Return the clues that are not crossed, most of them by kind of question."""
    columns: dict[_Named, int] = {}
    rows = []
    for item in tracked(items, "Finding clues", "records", counts=1):
        every = [_of_answers(item, words), *(_shared(item, words, part) for part in parts)]
        for clues in zip(*every, strict=True):
            named = [clue for some in clues for clue in some]
            rows.append([columns.setdefault(clue, len(columns)) for clue in named])
    return Clues(_matrix(rows, len(columns), 1.0), [name for _, name in columns])


def _of_answers(item: WordItem, words: Sequence[str]) -> Iterator[list[_Named]]:
    """Yield the clues of each answer that no text is needed for: (scope, name)."""
    lengths = item.lengths
    for place, own in enumerate(item.own_words()):
        clues = [(f"{item.kind} of {len(lengths)}", f"position {place + 1}")]
        if lengths.count(lengths[place]) == 1:
            if lengths[place] == max(lengths):
                clues.append((item.kind, "the longest answer"))
            if lengths[place] == min(lengths):
                clues.append((item.kind, "the shortest answer"))
        yield clues + [("", f"{_quoted(words[word])} in the answer") for word in sorted(own)]


def _shared(item: WordItem, words: Sequence[str], part: View) -> Iterator[list[_Named]]:
    """Yield the clues of each answer that lie in its words standing in a text: (scope, name)."""
    counts = dict(zip(*item.words[part].tolist(), strict=True))
    every_own = item.own_words()
    shares = [len(own & counts.keys()) / max(1, len(own)) for own in every_own]
    named: list[list[_Named]] = [[] for _ in every_own]
    for what in ("key", "description"):
        parts = [
            own & words_of[what] for own, words_of in zip(every_own, item.words_of, strict=True)
        ]
        times = [min((counts.get(word, 0) for word in some), default=0) for some in parts]
        for clues, some, n in zip(named, parts, times, strict=True):
            if some & counts.keys():
                clues.append((item.kind, f"a word of the answer's {what} in the {part}"))
            if n > 0:
                clues.append((item.kind, f"the answer's {what} in the {part}"))
            if n > min(times):
                clues.append(
                    (item.kind, f"the answer's {what} more often than others in the {part}")
                )
    for clues, own, share in zip(named, every_own, shares, strict=True):
        if share == max(shares) and shares.count(share) == 1:
            clues.append((item.kind, f"the most words shared with the {part}"))
        both = sorted(own & counts.keys())
        yield clues + [("", f"{_quoted(words[word])} in answer and {part}") for word in both]


def _crossed(items: Sequence[WordItem], words: Sequence[str], part: View) -> Clues:
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
    columns = [np.asarray(row, dtype=np.int32) for row in rows]
    ends = np.cumsum([0, *map(len, columns)], dtype=np.int32)
    indices = np.concatenate(columns)
    data = np.full(len(indices), value, dtype=np.float32)
    return sp.csr_array((data, indices, ends), shape=(len(rows), n_columns))


def _quoted(word: str) -> str:
    return f'"{word}"' if len(word) <= 40 else f'"{word[:37]}..."'
