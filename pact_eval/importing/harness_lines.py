"""One line of the samples of lm-evaluation-harness: its requests, and what it says of its answers.

    {"doc_id": 0, "doc": {...}, "target": "2",
     "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": " Ben"}, ...},
     "filtered_resps": [["-3.25", "False"], ...], "filter": "none", "metrics": ["acc", "f1"],
     "doc_hash", "prompt_hash", "target_hash": ..., "acc": 1.0, "f1": [2, 2]}

`acc` says whether the largest log-likelihood, the first of equal ones, is right. `acc_norm` divides
by the number of characters of the choice, `acc_bytes` by that of bytes, and `acc_mutual_info`
subtracts the log-likelihood without the prompt. `exact_match` says whether a right choice is what
greedy decoding gives. `f1` and `mcc` are pairs of the right answer and the answer; `brier_score`
and `likelihood` begin with the right answer. All of them are checks of how we read the target.

Below version 0.4.3, `arguments` is a list of pairs, and numbers are not texts.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Final

from pact_eval._choices import LogMetric
from pact_eval._json import Json, dumps
from pact_eval.data.labelled.answers import POSITIONS, TEXT
from pact_eval.importing.grouping import Grouping

METRICS: Final[tuple[LogMetric, ...]] = ("acc", "acc_norm", "acc_bytes", "acc_mutual_info")
"""Metrics that are 0 or 1 in every line; without `--metric`, the first that the log has is used."""

BY_LENGTH: Final = ("acc_norm", "acc_bytes")
NO_FILTER: Final = "none"

_HASHES: Final = ("doc_hash", "prompt_hash", "target_hash")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_PAIRS: Final = ("f1", "mcc", "brier_score", "likelihood")
_WITH_ANSWER: Final = ("f1", "mcc")
_LOGGED: Final = (*METRICS, *_PAIRS, "exact_match")
_ROUNDING: Final = 1e-6


class OtherTaskError(ValueError):
    """A line of a task that is not multiple choice, or is not scored as right or wrong."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file of samples.

    Attributes:
        number: 1-based line number; None in a JSON array.
        name: "doc <doc_id>", in messages.
        doc_id: its number in the task.
        doc_hash: hash of the document; empty if the log has none.
        prompt_hash: hash of its first prompt; empty if the log has none.
        hashes: the hashes of the line, joined; empty if one is missing.
        filter: name of the filter.
        log_likelihoods: of every choice after its prompt.
        alone: those without the prompt; empty if they were not asked for.
        greedy: whether each choice is what greedy decoding gives.
        continuations: the text of every choice, with the delimiter before it; empty if the
            choices are in the prompts.
        letters: whether the choices are A, B, ... and the prompt shows them.
        listed: the choices as the document lists them; empty if it does not, or nobody asks.
        target: as logged.
        values: the metrics as logged.
        labels: what names family and domain, if not the source.
    """

    number: int | None
    name: str
    doc_id: int
    doc_hash: str
    prompt_hash: str
    hashes: str
    filter: str
    log_likelihoods: tuple[float, ...]
    alone: tuple[float, ...]
    greedy: tuple[bool, ...]
    continuations: tuple[str, ...]
    letters: bool
    listed: tuple[str, ...]
    target: Json
    values: Mapping[str, Json]
    labels: Mapping[str, Json]

    def scores(self, metric: LogMetric, delimiter: str) -> tuple[float, ...] | None:
        """Return the score of every choice, of which the largest is the answer; None if unknown.

        Args:
            metric: by which answers are read.
            delimiter: what is between a prompt and a choice; it is no part of the choice.
        """
        if metric == "acc":
            return self.log_likelihoods
        if metric == "acc_mutual_info":
            pairs = zip(self.log_likelihoods, self.alone, strict=True) if self.alone else ()
            return tuple(a - b for a, b in pairs) or None
        choices = [text.removeprefix(delimiter) for text in self.continuations]
        lengths = [len(text.encode() if metric == "acc_bytes" else text) for text in choices]
        if not lengths or min(lengths) < 1:
            return None
        return tuple(a / length for a, length in zip(self.log_likelihoods, lengths, strict=True))

    def answer(self, metric: LogMetric, delimiter: str) -> int | None:
        """Return the choice of the largest score, the first of equal ones, as numpy's argmax."""
        scores = self.scores(metric, delimiter)
        return None if scores is None else scores.index(max(scores))

    def outcome(self, metric: str) -> bool | None:
        """Return whether the log counts the answer as right by a metric; None if it does not say.

        Raises:
            OtherTaskError: the metric is a share.
            ValueError: it is not a number from 0 to 1.
        """
        value = self.values.get(metric)
        if value is None or value in (0, 1):
            return None if value is None else bool(value)
        if isinstance(value, float) and 0 < value < 1:
            message = f"{metric} is a share of its own, not right or wrong"
            raise OtherTaskError(message)
        message = f"{metric}: expected 0 or 1, got {dumps(value)[:60]}"
        raise ValueError(message)

    @property
    def stated(self) -> tuple[int, ...] | None:
        """The right answers that pairs of metrics state; None without such metrics."""
        for name in _PAIRS:
            pair = self.values.get(name)
            if isinstance(pair, list) and len(pair) == 2:
                return _positions(pair[0], 0)
        return None


@dataclass(frozen=True, slots=True)
class Checks:
    """Everything that a line says of its right answer.

    Attributes:
        outcomes: metric, the answer by it, and whether the log counts it as right.
        greedy: whether each choice is what greedy decoding gives, and whether a right one is; None
            without `exact_match`.
        stated: the right answers by pairs of metrics; None without them.
    """

    outcomes: tuple[tuple[str, int, bool], ...]
    greedy: tuple[tuple[bool, ...], bool] | None
    stated: tuple[int, ...] | None

    @classmethod
    def of(cls, line: Line, delimiter: str) -> Checks:
        """Return the checks of a line; a metric that is a share is not one."""
        outcomes = []
        for metric in METRICS:
            value = line.values.get(metric)
            if value in (0, 1) and (answer := line.answer(metric, delimiter)) is not None:
                outcomes.append((metric, answer, value == 1))
        exact = line.values.get("exact_match")
        greedy = (line.greedy, exact == 1) if exact in (0, 1) and line.continuations else None
        return cls(tuple(outcomes), greedy, line.stated)

    def __bool__(self) -> bool:
        return bool(self.outcomes) or self.greedy is not None or self.stated is not None

    def contradiction(self, right: Sequence[int]) -> str | None:
        """Return what contradicts these right answers; None if nothing does."""
        texts = " or ".join(map(str, right))
        for metric, answer, counted in self.outcomes:
            if (answer in right) != counted:
                return (
                    f"the log counts this answer as {_verdict(counted)} ({metric}); read as answer "
                    f"{answer} and reference {texts}, it is {_verdict(not counted)}"
                )
        if self.stated is not None and set(self.stated) != set(right):
            stated = " or ".join(map(str, self.stated))
            return f"the log states {stated} as the reference in a metric; the target says {texts}"
        if self.greedy is not None and any(self.greedy[0][at] for at in right) != self.greedy[1]:
            return f"exact_match is {int(self.greedy[1])}; with reference {texts} it is not"
        return None


Reading = Callable[[Line], "tuple[int, ...] | None"]
"""Returns the right answers of a line; None if its target cannot be read so."""

READINGS: Final[Mapping[str, Reading]] = {
    POSITIONS[0]: lambda line: _inside(_positions(line.target, 0), line),
    TEXT: lambda line: _by_text(line),
    POSITIONS[1]: lambda line: _inside(_positions(line.target, 1), line),
}
"""How targets are read, by form. lm-evaluation-harness counts from 0."""


def read_line(
    number: int | None, entry: Mapping[str, Json], grouping: Grouping, *, listed: bool = True
) -> Line:
    """Read one line.

    Args:
        number: 1-based line number; None in a JSON array.
        entry: the line.
        grouping: what names family and domain.
        listed: whether to look for the choices in the document.

    Raises:
        OtherTaskError: it is not a line of a multiple-choice task.
        ValueError: it is malformed; the message says what it is.
    """
    doc_id = entry.get("doc_id")
    if not isinstance(doc_id, int) or isinstance(doc_id, bool):
        message = f"doc_id: expected an integer, got {dumps(doc_id)[:60]}"
        raise ValueError(message)
    contexts, continuations = _requests(entry.get("arguments"))
    values, greedy = _responses(entry.get("filtered_resps"), len(continuations))
    alone: tuple[float, ...] = ()
    half = len(values) // 2
    if "acc_mutual_info" in entry and len(values) == 2 * half and not any(contexts[half:]):
        # The second half is asked without the prompt; only `acc_mutual_info` uses it.
        alone, values, greedy = values[half:], values[:half], greedy[:half]
        contexts, continuations = contexts[:half], continuations[:half]
    in_prompts = len(set(continuations)) == 1 and len(set(contexts)) > 1
    choices = () if in_prompts else continuations
    hashes = [entry.get(key) for key in _HASHES]
    _check_hashes(entry, contexts[0])
    line = Line(
        number=number,
        name=f"doc {doc_id}",
        doc_id=doc_id,
        doc_hash=str(hashes[0] or ""),
        prompt_hash=str(hashes[1] or ""),
        hashes="".join(map(str, hashes)) if all(hashes) else "",
        filter=str(entry.get("filter") or NO_FILTER),
        log_likelihoods=values,
        alone=alone,
        greedy=greedy,
        continuations=choices,
        letters=_shows_letters(choices, contexts[0]),
        listed=_listed(entry.get("doc"), choices) if listed else (),
        target=entry.get("target"),
        values={name: entry[name] for name in _LOGGED if entry.get(name) is not None},
        labels=grouping.of_entry(entry),
    )
    _check_answer(line)
    return line


def by_outcome(line: Line) -> tuple[int, ...]:
    """Return the reference of a line whose choices are in its prompts.

    Its target is the continuation, so it does not say which prompt is right.

    Raises:
        ValueError: nothing says it.
    """
    if line.stated is not None and _inside(line.stated, line):
        return line.stated
    answer = line.answer("acc", "") or 0
    if line.outcome("acc") is True:
        return (answer,)
    if line.outcome("acc") is False and len(line.log_likelihoods) == 2:
        return (1 - answer,)
    message = (
        "the choices are in the prompts, so target is not the reference; acc shows it only for "
        "answers that are right, or between two choices"
    )
    raise ValueError(message)


def wrong_target(line: Line) -> str:
    """Return what is wrong with a target that no reading fits."""
    texts = ", ".join(repr(text.strip())[:20] for text in line.continuations[:8])
    return f"target: expected an index or one of {texts}; got {line.target!r:.60}"


def _verdict(right: bool) -> str:
    return "right" if right else "wrong"


def _check_hashes(entry: Mapping[str, Json], prompt: str) -> None:
    """Compare target and first prompt with their hashes.

    Raises:
        ValueError: one has another hash than the log says.
    """
    for name, text in (("target", str(entry.get("target"))), ("prompt", prompt)):
        logged = entry.get(f"{name}_hash")
        if not isinstance(logged, str) or not _SHA256.fullmatch(logged):
            continue
        if hashlib.sha256(text.encode()).hexdigest() != logged:
            message = f"{name}_hash: the {name} of this line is not the one that was hashed"
            raise ValueError(message)


def _check_answer(line: Line) -> None:
    """Compare the answers that pairs of metrics state with the log-likelihoods.

    Raises:
        ValueError: they differ.
    """
    for name in _WITH_ANSWER:
        pair = line.values.get(name)
        if isinstance(pair, list) and len(pair) == 2 and pair[1] != line.answer("acc", ""):
            answer = line.answer("acc", "")
            message = f"{name} states answer {dumps(pair[1])[:20]}; the most likely is {answer}"
            raise ValueError(message)


def _requests(value: Json) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return prompts and continuations of the requests of a line.

    Raises:
        OtherTaskError: they are those of another type of task.
        ValueError: there are no requests.
    """
    pairs: list[tuple[Json, Json]] = []
    requests = list(value.values()) if isinstance(value, dict) else value
    for request in requests if isinstance(requests, list) else []:
        parts = request if isinstance(request, list) else []
        if isinstance(request, dict):
            parts = [part for name, part in request.items() if name in ("arg_0", "arg_1")]
        pairs.append((parts[0] if parts else None, parts[1] if len(parts) > 1 else None))
    if not pairs:
        message = f"arguments: expected requests of a multiple-choice task, got {dumps(value)[:60]}"
        raise ValueError(message)
    if len(pairs) < 2 or not all(isinstance(text, str) for _, text in pairs):
        other = "one text whose likelihood is measured (loglikelihood)"
        if isinstance(pairs[0][1], dict):
            other = "a generated text (generate_until)"
        message = f"not multiple choice, but {other}"
        raise OtherTaskError(message)
    return tuple(str(a) for a, _ in pairs), tuple(str(b) for _, b in pairs)


def _responses(value: Json, choices: int) -> tuple[tuple[float, ...], tuple[bool, ...]]:
    """Return log-likelihoods, and whether each is that of greedy decoding.

    Raises:
        ValueError: there are not as many, or they cannot be log-likelihoods.
    """
    responses = value if isinstance(value, list) else []
    pairs = [pair for pair in responses if isinstance(pair, list) and len(pair) == 2]
    if len(pairs) != choices or len(responses) != choices:
        message = (
            f"filtered_resps: expected {choices} pairs of log-likelihood and greediness, got "
            f"{dumps(value)[:60]}; generated texts have no probabilities of the answers"
        )
        raise ValueError(message)
    numbers = tuple(_number(pair[0]) for pair in pairs)
    if not all(map(math.isfinite, numbers)):
        found = dumps([pair[0] for pair in pairs])[:60]
        message = f"filtered_resps: expected finite log-likelihoods, got {found}"
        raise ValueError(message)
    if max(numbers) > _ROUNDING:
        message = (
            "filtered_resps: expected log-likelihoods, which are at most 0, got positive numbers: "
            "the log is not of likelihoods"
        )
        raise ValueError(message)
    return numbers, tuple(str(pair[1]) == "True" for pair in pairs)


def _number(value: Json) -> float:
    """Return a number, which the tool writes as text; NaN if it is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


def _shows_letters(choices: Sequence[str], prompt: str) -> bool:
    """Return whether the choices are A, B, ... and the prompt shows each as `A.`, `A)` or `A:`."""
    letters = [choice.strip() for choice in choices]
    return (
        bool(letters)
        and letters == [*ascii_uppercase[: len(letters)]]
        and all(re.search(rf"(?<!\w){letter}[.):\]]", prompt) for letter in letters)
    )


def _listed(doc: Json, choices: Sequence[str]) -> tuple[str, ...]:
    """Return the list of a document that has the choices, spaces aside; empty without one."""
    stripped = [choice.strip() for choice in choices]
    for texts in _lists_of_texts(doc):
        if [text.strip() for text in texts] == stripped:
            return tuple(texts)
    return ()


def _lists_of_texts(value: Json) -> Iterator[list[str]]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _lists_of_texts(inner)
    elif isinstance(value, list):
        texts = [text for text in value if isinstance(text, str)]
        if texts and len(texts) == len(value):
            yield texts


def _positions(target: Json, first: int) -> tuple[int, ...] | None:
    """Return the positions that a target states, as numbers, a list, or text of either.

    Examples:
        >>> _positions("[0, 2]", 0), _positions("3", 1), _positions("True", 0), _positions("B", 0)
        ((0, 2), (2,), (1,), None)
    """
    words = target if isinstance(target, list) else [target]
    if isinstance(target, str):
        words = [*re.split(r",\s*", target[1:-1] if re.fullmatch(r"\[.+\]", target) else target)]
    found = set()
    for word in words:
        text = {"True": "1", "False": "0"}.get(str(word), str(word))
        if not re.fullmatch(r"\d{1,4}(\.0)?", text):
            return None
        found.add(int(float(text)) - first)
    return tuple(sorted(found)) or None


def _inside(positions: tuple[int, ...] | None, line: Line) -> tuple[int, ...] | None:
    """Return positions if all of them are choices of the line."""
    choices = len(line.log_likelihoods)
    return positions if positions and 0 <= positions[0] <= positions[-1] < choices else None


def _by_text(line: Line) -> tuple[int, ...] | None:
    """Return the first choice with the text of the target; spaces around it do not count."""
    if not isinstance(line.target, str | int):
        return None
    target = str(line.target)
    for texts, text in (
        (line.continuations, target),
        ([choice.strip() for choice in line.continuations], target.strip()),
    ):
        if text in texts:
            return (texts.index(text),)
    return None
