"""Differences between two versions of a dataset file: records, and in their texts words."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from pact_eval._json import Json, dumps
from pact_eval.data.files import DataFile
from pact_eval.data.index import index_of_records
from pact_eval.data.records import readable


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """A record and its line in the file that has it.

    Attributes:
        id: the record's id.
        line: 1-based line.
    """

    id: str
    line: int


@dataclass(frozen=True, slots=True)
class RecordChange:
    """A record that occurs in both files and differs.

    Attributes:
        id: the record's id.
        old_line: 1-based line in the old file.
        new_line: 1-based line in the new file.
        fields: what differs, by path: `family`, `input.state`, `input.questions.decision.criteria`,
            `reference.target`, ...
        references: the old and the new reference, as answer keys, where they differ.
    """

    id: str
    old_line: int
    new_line: int
    fields: tuple[str, ...]
    references: tuple[str, str] | None


@dataclass(frozen=True)
class DatasetDiff:
    """The difference of two dataset files, joined on record ids.

    Attributes:
        old_records: number of records in the old file.
        new_records: number of records in the new file.
        added: records that only the new file has, in its order.
        removed: records that only the old file has, in its order.
        changed: records that differ, in the order of the new file.
        reordered: whether the records that both have occur in another order.
    """

    old_records: int
    new_records: int
    added: tuple[RecordPlace, ...]
    removed: tuple[RecordPlace, ...]
    changed: tuple[RecordChange, ...]
    reordered: bool

    @property
    def unchanged(self) -> int:
        """Number of records that are the same in both."""
        return self.new_records - len(self.added) - len(self.changed)

    @property
    def flipped(self) -> int:
        """Number of records whose reference is another answer now."""
        return sum(change.references is not None for change in self.changed)


def diff_datasets(old: Path, new: Path) -> DatasetDiff:
    """Compare two dataset files record by record.

    Records are compared by meaning: white space and escapes of the JSON do not count, the order of
    answers does.

    Args:
        old: the old file.
        new: the new file.

    Returns:
        The difference.

    Raises:
        InputError: a file cannot be read.
        RecordError: a line is not a record, or an id appears twice.
    """
    before, after = _summaries(old), _summaries(new)
    both = [record_id for record_id in after if record_id in before]
    changed = []
    for record_id in both:
        earlier, later = before[record_id], after[record_id]
        paths = dict.fromkeys([*later.fields, *earlier.fields])
        fields = tuple(path for path in paths if earlier.fields.get(path) != later.fields.get(path))
        flipped = earlier.reference != later.reference
        references = (earlier.reference, later.reference) if flipped else None
        if fields:
            changed.append(RecordChange(record_id, earlier.line, later.line, fields, references))
    kept_lines = [before[record_id].line for record_id in both]
    return DatasetDiff(
        old_records=len(before),
        new_records=len(after),
        added=tuple(RecordPlace(name, of.line) for name, of in after.items() if name not in before),
        removed=tuple(
            RecordPlace(name, of.line) for name, of in before.items() if name not in after
        ),
        changed=tuple(changed),
        reordered=kept_lines != sorted(kept_lines),
    )


class _Summary(NamedTuple):
    """A record in a few bytes: its line, the key of its answer, and hashes of its parts by path."""

    line: int
    reference: str
    fields: Mapping[str, bytes]


def _summaries(path: Path) -> dict[str, _Summary]:
    """Return the records of a file in a few bytes each, by their ids."""
    index = index_of_records([DataFile(str(path), "train", path)])
    summaries = {}
    for located in index.read(range(len(index))):
        record = located.record
        fields = {
            path: hashlib.blake2b(dumps(value).encode(), digest_size=8).digest()
            for path, value in _parts(located.value)
        }
        answer = record.field.answers[record.reference or 0].key
        summaries[record.id] = _Summary(record.line, answer, fields)
    return summaries


def _parts(value: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Yield (path, value) of what is compared: down to the parts of the input and the reference."""
    opened = ("", "input", "input.questions", "input.questions.decision", "reference")
    if path in opened and isinstance(value, dict):
        for key, item in value.items():
            yield from _parts(item, f"{path}.{key}" if path else key)
    else:
        yield path, value


# Pairs of equal words that are compared at most: half a second; beyond it the middle is one change.
_MOST_MATCHES = 100_000

# A number with its signs, a sign of a script without spaces, letters with apostrophes, any sign.
_WORD = re.compile(
    r"\d+(?:[.,:]\d+)*"
    r"|[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"
    r"|[^\W\d_]+(?:['’][^\W\d_]+)*"
    r"|[^\w\s]|_"
)


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of words that both texts share, or that one has in place of the other's.

    Attributes:
        kind: "same" or "changed".
        left: what the first text has there, on one line; may be empty in a change.
        right: what the second has; equal to `left` where the words are the same.
    """

    kind: Literal["same", "changed"]
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class WordDiff:
    """The difference of two texts.

    Attributes:
        segments: in reading order.
        edited_words: words that were replaced, added or left out; a replacement of m words by n
            counts max(m, n).
    """

    segments: tuple[Segment, ...]
    edited_words: int


def words(text: str) -> list[str]:
    """Split a text, as a reader sees it, into words and signs.

    Examples:
        >>> words("Box B-17 doesn't hold 3.5 kg.")
        ['Box', 'B', '-', '17', "doesn't", 'hold', '3.5', 'kg', '.']
    """
    return _WORD.findall(readable(text))


def same_words(left: str, right: str) -> bool:
    """Tell whether two texts have the same words, whatever their case and signs.

    Examples:
        >>> same_words("The seal is intact.", "THE SEAL is in\u200btact!")
        True
    """
    a, b = (
        [word.casefold() for word in _WORD.findall(text) if word[0].isalnum()]
        for text in _changed_parts(readable(left), readable(right))
    )
    return a == b


def edited_words(left: str, right: str) -> int:
    """Return the number of edited words, as `word_diff` counts them, without the segments.

    Examples:
        >>> edited_words("The seal is intact today.", "The seal is not intact.")
        2
    """
    return word_diff(*_changed_parts(readable(left), readable(right))).edited_words


def _changed_parts(left: str, right: str) -> tuple[str, str]:
    """Return the texts without the spaces and words that both start with, and that both end with.

    >>> _changed_parts("The seal is intact.", "The seal was intact.")
    (' is', ' was')
    """
    # Parts are cut in front of a space, or behind one: no word is divided.
    start = max(left.rfind(" ", 0, common_prefix(left, right)), 0)
    left, right = left[start:], right[start:]
    end = left.find(" ", len(left) - common_prefix(left[::-1], right[::-1]))
    if end < 0:
        return left, right
    return left[:end], right[: end + len(right) - len(left)]


def common_prefix(left: Sequence[str], right: Sequence[str]) -> int:
    """Return how many characters, or words, both start with, by bisection: texts are long.

    Examples:
        >>> common_prefix("seal intact", "seal in two"), common_prefix("", "a")
        (7, 0)
    """
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def word_diff(left: str, right: str) -> WordDiff:
    """Compare two texts word by word.

    Args:
        left: first text.
        right: second text.

    Returns:
        Their segments and the number of edited words.

    Examples:
        >>> diff = word_diff("The seal is intact today.", "The seal is not intact.")
        >>> diff.edited_words, [(s.left, s.right) for s in diff.segments if s.kind == "changed"]
        (2, [('', 'not'), ('today', '')])
    """
    texts = readable(left), readable(right)
    tokens = [[(m.start(), m.end()) for m in _WORD.finditer(text)] for text in texts]
    a, b = ([text[i:j] for i, j in of] for text, of in zip(texts, tokens, strict=True))
    start = common_prefix(a, b)
    end = common_prefix(a[start:][::-1], b[start:][::-1])
    inner = (start, len(a) - end, start, len(b) - end)
    runs = [(0, start, 0, start), *_runs(a, b, inner), (len(a) - end, len(a), len(b) - end, len(b))]
    segments: list[Segment] = []
    edited = 0
    for i, j, k, m in runs:
        if i == j and k == m:
            continue
        kind: Literal["same", "changed"] = "same" if a[i:j] == b[k:m] else "changed"
        if kind == "changed":
            edited += max(j - i, m - k)
        shown = _span(texts[0], tokens[0][i:j]), _span(texts[1], tokens[1][k:m])
        segments.append(Segment(kind, shown[0], shown[0] if kind == "same" else shown[1]))
    return WordDiff(tuple(segments), edited)


def _span(text: str, tokens: list[tuple[int, int]]) -> str:
    """Return the text from the first token to the last, on one line."""
    return " ".join(text[tokens[0][0] : tokens[-1][1]].split()) if tokens else ""


def _runs(
    a: list[str], b: list[str], inner: tuple[int, int, int, int]
) -> list[tuple[int, int, int, int]]:
    """Return ranges of the two lists next to each other; equal or different as blocks."""
    i, j, k, m = inner
    in_a, in_b = Counter(a[i:j]), Counter(b[k:m])
    if sum(n * in_b[word] for word, n in in_a.items()) > _MOST_MATCHES:
        return [inner]
    matcher = difflib.SequenceMatcher(a=a[i:j], b=b[k:m], autojunk=False)
    return [(i + p, i + q, k + r, k + s) for _, p, q, r, s in matcher.get_opcodes()]
