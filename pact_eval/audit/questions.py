"""Check "questions": answers and instructions that cannot be answered as they are written.

Each rule reads one question with its answers, and a question that many records ask is reported
once, at its first record. Two rules read all records: a word of an answer that no context lacks,
and a length that tells the right answer. No request is sent.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from pact_eval._json import cut, dumps
from pact_eval.audit.context import DataContext
from pact_eval.audit.findings import Check, CheckResult, Collector
from pact_eval.data.index import Index, Located
from pact_eval.data.records import LETTERS, Answer, Field, context_text, folded
from pact_eval.errors import Place
from pact_eval.stats.proportions import p_value_above

_Found: TypeAlias = tuple[str, str, str]
"""Code, what is expected, and what is there."""

_FEWEST_CONTEXTS: Final = 20
_LONG_WORD: Final = 3
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
_SCALES: Final = tuple(
    {word: rank for rank, words in enumerate(scale.split("|")) for word in words.split()}
    for scale in (
        "never|rarely seldom|sometimes occasionally|often frequently usually|always",
        "no none|minimal slight minor|low mild|moderate medium|high major|severe extreme critical",
        "terrible awful worst|poor bad|fair average okay|good|great|excellent perfect best",
    )
)
"""Words of scales with their ranks."""


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


def rubric_order(asked: Field) -> Iterator[_Found]:
    """Find levels of a score that say nothing, or whose words are in no order."""
    if asked.kind != "score":
        return
    described = [answer for answer in asked.answers if answer.description]
    if not described and not _ENDS.search(_question(asked)):
        actual = f"{len(asked.answers)} levels without a description"
        yield "rubric-undescribed", "levels that say what they mean, or their two ends", actual
    for scale in _SCALES:
        ranked = _ranked(described, scale)
        ranks = [rank for rank, _ in ranked]
        if len(ranks) > 1 and ranks not in (sorted(ranks), sorted(ranks, reverse=True)):
            actual = ", ".join(f"{answer.key}: {answer.description}" for _, answer in ranked)
            yield "rubric-unordered", "levels that rise or fall in one order", _shortened(actual)
            return


def _ranked(answers: Sequence[Answer], scale: dict[str, int]) -> list[tuple[int, Answer]]:
    """Return the levels that one word of a scale is all of, with its rank."""
    words = [(folded(answer.description or "").strip(" ."), answer) for answer in answers]
    return [(scale[word], answer) for word, answer in words if word in scale]


RULES: Final[tuple[Callable[[Field], Iterator[_Found]], ...]] = (
    nearly_alike,
    overlapping_ranges,
    opaque_answers,
    default_answers,
    named_letters,
    negations,
    rubric_order,
)
"""The rules that read one question with its answers."""


def _question(asked: Field) -> str:
    return folded(context_text([asked.instructions]))


@dataclass
class _Asked:
    """What the records that ask one question have in common.

    Attributes:
        place: of the first record.
        words: words of its answers that every context so far has.
        contexts: hashes of these contexts.
    """

    place: Place
    words: set[str]
    contexts: set[int] = field(default_factory=set)

    def see(self, located: Located) -> None:
        """Look at the context of a record."""
        text = folded(context_text([located.record.state]))
        self.contexts.add(hash(text))
        if self.words:
            self.words &= {*re.findall(r"\w+", text)}


@dataclass
class _Lengths:
    """How often the right answer is the longest, or the shortest, one record per set of answers.

    Attributes:
        right: records by file and end whose right answer it is.
        chances: by file, the chance of each.
    """

    right: Counter[tuple[str, str]] = field(default_factory=Counter)
    chances: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    seen: set[tuple[str, str]] = field(default_factory=set)

    def see(self, located: Located, answers: str) -> None:
        """Count a record, unless its family or its answers were counted."""
        record, file = located.record, located.file.name
        keys = {(file, f"answers {answers}"), (file, f"family {record.family}")}
        if keys & self.seen or record.reference is None or record.field.kind != "choice":
            return
        self.seen |= keys
        lengths = [*map(len, _texts(record.field))]
        for end, length in (("longest", max(lengths)), ("shortest", min(lengths))):
            if lengths.count(length) == 1:
                self.chances.setdefault((file, end), []).append(1 / len(lengths))
                self.right[file, end] += lengths[record.reference] == length

    def report(self, findings: Collector) -> None:
        """Test both ends of every file; exact, adjusted by Bonferroni."""
        for (file, end), chances in self.chances.items():
            right, n, chance = self.right[file, end], len(chances), sum(chances) / len(chances)
            p_value = float(p_value_above(right, n, chance)) * len(self.chances)
            if p_value < _LEVEL and right > _RATIO * n * chance:
                expected = f"the {end} answer right in about {n * chance:.0f} of {n:,} questions"
                findings.add("length-favoured", Place(file), expected, f"{right:,}")


def check_questions(index: Index, findings: Collector) -> CheckResult:
    """Look at every question once, and at what its contexts share.

    Args:
        index: the dataset.
        findings: collects what is wrong.
    """
    asked: dict[int, _Asked] = {}
    lengths = _Lengths()
    for located in index.read(range(len(index))):
        question = located.record.field
        answers = dumps([[answer.key, answer.description] for answer in question.answers])
        key = hash((question.kind, dumps(question.instructions), answers))
        if key not in asked:
            asked[key] = _Asked(located.place, _long_words(question))
            for rule in RULES:
                for code, expected, actual in rule(_as_asked(located)):
                    findings.add(code, located.place, expected, actual)
        asked[key].see(located)
        lengths.see(located, answers)
    for question_seen in asked.values():
        if question_seen.words and len(question_seen.contexts) >= _FEWEST_CONTEXTS:
            expected = (
                f"contexts that differ in the words of answers ({len(question_seen.contexts):,})"
            )
            actual = f"in every one: {', '.join(sorted(question_seen.words))}"
            findings.add("answer-in-every-context", question_seen.place, expected, actual)
    lengths.report(findings)
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


def _long_words(question: Field) -> set[str]:
    """Return the words that name answers of a choice: of names that are one word of some length."""
    names = {folded(answer.key) for answer in question.answers if question.kind == "choice"}
    return {name for name in names if len(name) >= _LONG_WORD and re.fullmatch(r"[^\W\d]+", name)}


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
        "rubric-unordered": ("warning", "The words of the levels of a score are in no order."),
        "length-favoured": (
            "warning",
            "The longest or the shortest answer is right far more often than chance.",
        ),
        "default-answer": ("note", "A question has an answer for everything else."),
        "negated-question": ("note", "A question has two negations, or asks yes or no of one."),
        "rubric-undescribed": ("note", "Nothing says what the levels of a score mean."),
        "answer-in-every-context": ("note", "Every context has a word that names an answer."),
    },
)
