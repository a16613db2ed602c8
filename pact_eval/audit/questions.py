"""Check "questions": answers and instructions that cannot be answered as they are written.

Each rule reads one question with its answers, and a question that many records ask is reported
once, at its first record. One rule reads all records: a length that tells the right answer. No
request is sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from pact_eval._json import cut, dumps
from pact_eval.audit.context import DataContext
from pact_eval.audit.findings import Check, CheckResult, Collector
from pact_eval.data.index import Index, Located
from pact_eval.data.records import LETTERS, Field, context_text, folded
from pact_eval.errors import Place
from pact_eval.stats.rates import p_value_above

_Found: TypeAlias = tuple[str, str, str]
"""Code, what is expected, and what is there."""

_LEVEL: Final = 0.001
_RATIO: Final = 1.2
_SHOWN: Final = 80

_PUNCTUATION: Final = '.,;:?"\u201c\u201d'
_RANGE: Final = re.compile(
    r"(?P<before>\D*?)(?P<low>\d+(?:\.\d+)?)\s*(?:-|\u2013|\bto\b)\s*(?P<high>\d+(?:\.\d+)?)(?P<unit>\D*)"
)
_OPAQUE: Final = re.compile(r"(?:label|class|category|option|choice|answer|type|group)[ _-]?\d+")
_DEFAULT: Final = re.compile(
    r"others?|other answer|something else|none|neither|none of (?:the above|these|those|them)|"
    r"no answer|unknown|unclear|undetermined|uncertain|undecided|unsure|not sure|"
    r"(?:i )?do(?:n't| not) know|can(?:'t|not| not) (?:tell|say|be determined|determine)|"
    r"n/?a|not (?:applicable|specified|given|mentioned)|not enough info(?:rmation)?|"
    r"misc(?:ellaneous)?"
)
_PLACES: Final = re.compile(
    r"\b(?:all|none|both|neither|either|any|most) of the "
    r"(?:above|below|preceding|previous|following|other (?:answers|options|choices))\b|"
    r"\b(?:answers?|options?|choices?|statements?) (?:above|below)\b"
)
_ONE: Final = r"\(?\b([A-Z])\b\)?"
_NAMED: Final = re.compile(
    rf"(?i:\b(?:see|options?|choices?|answers?|same as))\s+{_ONE}(?:\s*(?:,|&|/|and|or)\s*{_ONE})?"
)
_ONLY_LETTERS: Final = re.compile(
    rf"\W*(?i:both\s+|either\s+|neither\s+|only\s+)?{_ONE}\s*(?:,|&|/|and|or|nor)\s*{_ONE}"
    r"(?:\s*(?:,|&|/|and|or|nor)+\s*\(?[A-Z]\b\)?)*(?i:\s+only|\s+are\s+\w+)?\W*"
)
_NOT: Final = re.compile(
    r"\b(?:not|never|no|none|nobody|nothing|neither|nor|cannot|without|unless|except|lacks?)\b|n['\u2019]t\b"
)
_NEGATED_VERB: Final = re.compile(r"\b(?:not|cannot)\b|n['\u2019]t\b")
_SENTENCE_END: Final = re.compile(r"(?<=[.?!])")
_NO_NEGATION: Final = re.compile(r"\bor not\b|\bnot only\b|\bno\. ?\d|\byes or no\b|\bno or yes\b")
_ENDS: Final = re.compile(
    r"\b(?:lowest|highest|least|most|worst|best|low|high|never|always|scale|worse|better|stronger|"
    r"weaker|from \w+ to|not at all|higher|lower|minimum|maximum)\b"
)


def _shortened(text: str) -> str:
    return cut(" ".join(text.split()), _SHOWN)


def _texts(asked: Field) -> list[str]:
    """Return what a reader sees of each answer: its description, or else its name."""
    return [answer.description or answer.key for answer in asked.answers]


def nearly_alike(asked: Field) -> Iterator[_Found]:
    """Find two answers that differ in punctuation alone; the schema has those that read alike."""
    for texts in ([answer.key for answer in asked.answers], _texts(asked)):
        if len({*map(folded, texts)}) < len(texts):
            return
        seen: dict[str, str] = {}
        for text in texts:
            words = (word.strip(_PUNCTUATION) for word in folded(text).split())
            bare = " ".join(word for word in words if word)
            if bare in seen:
                actual = f"{_shortened(seen[bare])} and {_shortened(text)}"
                yield "answers-nearly-alike", "answers that differ in a word", actual
                return
            seen[bare] = text


def overlapping_ranges(asked: Field) -> Iterator[_Found]:
    """Find ranges in rising order, of which one begins before the last one has ended."""
    if asked.kind != "choice":
        return
    texts = _texts(asked)
    matches = [match for match in map(_RANGE.fullmatch, texts) if match is not None]
    units = {(match["before"].strip(), match["unit"].strip()) for match in matches}
    if len(matches) < max(2, len(texts) - 2) or len(units) > 1:
        return
    ranges = [(float(match["low"]), float(match["high"])) for match in matches]
    if ranges != sorted(ranges) or any(low > high for low, high in ranges):
        return
    for (match, (_, high)), (other, (low, _)) in zip(
        zip(matches, ranges, strict=True), [*zip(matches, ranges, strict=True)][1:], strict=False
    ):
        if low <= high:
            actual = f"{match[0].strip()} and {other[0].strip()} share {low:g}"
            yield "answers-overlap", "ranges that share no number", actual
            return


def opaque_answers(asked: Field) -> Iterator[_Found]:
    """Find answers that are only numbered or lettered, in a question that does not explain them."""
    keys = [answer.key.casefold() for answer in asked.answers]
    if asked.kind != "choice" or any(answer.description for answer in asked.answers):
        return
    numbered = [*map(str, range(len(keys)))], [*map(str, range(1, len(keys) + 1))]
    lettered = [letter.casefold() for letter in LETTERS[: len(keys)]]
    opaque = sorted(keys) in (*map(sorted, numbered), lettered)
    explained = all(re.search(rf"\b{re.escape(key)}\b", _question(asked)) for key in keys)
    counts = re.search(r"\b(?:how many|number of|count)\b", _question(asked))
    if (opaque and not explained and not counts) or all(map(_OPAQUE.fullmatch, keys)):
        actual = ", ".join(answer.key for answer in asked.answers)
        yield "answers-opaque", "answers that say what they mean", _shortened(actual)


def default_answers(asked: Field) -> Iterator[_Found]:
    """Find an answer for everything else."""
    for answer in asked.answers if asked.kind == "choice" else ():
        texts = (text for text in (answer.description, answer.key) if text)
        plain = (re.sub(r"[ _-]+", " ", folded(text)).strip(" .()") for text in texts)
        if any(map(_DEFAULT.fullmatch, plain)):
            text = _shortened(answer.description or answer.key)
            yield "default-answer", "answers that say what belongs to them", text


def named_letters(asked: Field) -> Iterator[_Found]:
    """Find texts that name letters or places of answers; another order makes them wrong."""
    texts, letters = _texts(asked), LETTERS[: len(asked.answers)]
    for text in texts:
        letter = _named_letter(text, letters)
        others = {folded(other) for other in texts if other is not text}
        if _PLACES.search(folded(text)) or (letter and letter.casefold() not in others):
            expected = "an answer that is right in every order"
            yield "order-in-answer", expected, _shortened(text)
    question, keys = context_text([asked.instructions]), {answer.key for answer in asked.answers}
    match = _NAMED.search(question)
    if match and match[2] and {match[1], match[2]} <= {*letters} - keys:
        expected = "a question without letters, which change with the order"
        yield "letter-in-question", expected, _shortened(match[0])


def _named_letter(text: str, letters: Sequence[str]) -> str | None:
    """Return the first letter that an answer names, if all that it names are letters of answers."""
    match = _ONLY_LETTERS.fullmatch(text) or _NAMED.search(text)
    named = [] if match is None else [letter for letter in match.groups() if letter]
    return named[0] if named and {*named} <= {*letters} else None


def negations(asked: Field) -> Iterator[_Found]:
    """Find questions with two negations, one of them of a verb, and negated yes-or-no questions."""
    for sentence in _SENTENCE_END.split(_question(asked)):
        plain = _NO_NEGATION.sub(" ", sentence)
        if not (sentence.endswith("?") and _NEGATED_VERB.search(plain)):
            continue
        if asked.kind == "boolean":
            expected = "a question without a negation"
            yield "negated-question", expected, _shortened(sentence)
        elif len(_NOT.findall(plain)) > 1:
            yield "negated-question", "one negation at most", _shortened(sentence)


def undescribed_levels(asked: Field) -> Iterator[_Found]:
    """Find levels of a score that say nothing, in a question that does not say it either."""
    described = any(answer.description for answer in asked.answers)
    if asked.kind == "score" and not described and not _ENDS.search(_question(asked)):
        actual = f"{len(asked.answers)} levels without a description"
        yield "rubric-undescribed", "levels that say what they mean, or their two ends", actual


RULES: Final[tuple[Callable[[Field], Iterator[_Found]], ...]] = (
    nearly_alike,
    overlapping_ranges,
    opaque_answers,
    default_answers,
    named_letters,
    negations,
    undescribed_levels,
)
"""The rules that read one question with its answers."""


def _question(asked: Field) -> str:
    return folded(context_text([asked.instructions]))


def check_questions(index: Index, findings: Collector) -> CheckResult:
    """Look at every question once, and at the lengths of right answers.

    Args:
        index: the dataset.
        findings: collects what is wrong.
    """
    asked: set[int] = set()
    seen: set[tuple[str, str]] = set()
    # By file and end: whether the right answer of a record is at this end, and the chance of it.
    ends: dict[tuple[str, str], list[tuple[bool, float]]] = {}
    for located in index.read(range(len(index))):
        record, file, question = located.record, located.file.name, located.record.field
        answers = dumps([[answer.key, answer.description] for answer in question.answers])
        key = hash((question.kind, dumps(question.instructions), answers))
        if key not in asked:
            asked.add(key)
            for code, expected, actual in (
                each for rule in RULES for each in rule(_as_asked(located))
            ):
                findings.add(code, located.place, expected, actual)
        # One record of a family, and one of a set of answers.
        keys = {(file, f"answers {answers}"), (file, f"family {record.family}")}
        if not keys & seen and record.reference is not None and question.kind == "choice":
            seen |= keys
            lengths = [*map(len, _texts(question))]
            for end, length in (("longest", max(lengths)), ("shortest", min(lengths))):
                if lengths.count(length) == 1:
                    at_end = lengths[record.reference] == length
                    ends.setdefault((file, end), []).append((at_end, 1 / len(lengths)))
    for (file, end), records in ends.items():
        n, right, chances = len(records), *map(sum, zip(*records, strict=True))
        # Exact, and adjusted for the ends of all files by Bonferroni.
        p_value = float(p_value_above(right, n, chances / n)) * len(ends)
        if p_value < _LEVEL and right > _RATIO * chances:
            expected = f"the {end} answer right in about {chances:.0f} of {n:,} questions"
            findings.add("length-favoured", Place(file), expected, f"{right:,}")
    return findings.result(f"{len(asked):,} questions")


def _as_asked(located: Located) -> Field:
    """Return the question of a record; a context that ends as a question belongs to it.

    Rows with a question and its own options have the question as their context.
    """
    record = located.record
    text = context_text([record.state])
    if not text.rstrip().endswith("?"):
        return record.field
    return replace(record.field, instructions=[record.field.instructions, text])


CHECK: Final[Check[DataContext]] = Check(
    name="questions",
    question="Can every question be answered as it is written?",
    run=lambda context, findings: check_questions(context.index, findings),
    needs=("records",),
    cost=1.0,
    codes={
        "answers-nearly-alike": ("warning", "Two answers differ in punctuation alone."),
        "answers-overlap": ("warning", "Two answers are ranges that share a number."),
        "answers-opaque": ("warning", "Answers are only numbered, and nothing explains them."),
        "order-in-answer": ("warning", "An answer names a letter or place of another one."),
        "letter-in-question": ("warning", "A question names letters, which change with the order."),
        "length-favoured": (
            "warning",
            "The longest or the shortest answer is right too often for chance.",
        ),
        "default-answer": ("note", "A question has an answer for everything else."),
        "negated-question": ("note", "A question has two negations, or asks yes or no of one."),
        "rubric-undescribed": ("note", "Nothing says what the levels of a score mean."),
    },
)
