"""Logs of lm-evaluation-harness: result files, sample lines, and runs made of them."""

from __future__ import annotations

import hashlib
import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Final

from pact_eval._choices import LogMetric
from pact_eval._files import open_regular, reading
from pact_eval._json import Json, at, dumps
from pact_eval.data.labelled.answers import POSITIONS, TEXT
from pact_eval.errors import InputError, SeveralFilesError
from pact_eval.importing.source import Grouping, ImportOptions, as_dict, read_large_json

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
            raise OtherTaskError(f"{metric} is a share of its own, not right or wrong")
        raise ValueError(f"{metric}: expected 0 or 1, got {dumps(value)[:60]}")

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
        raise ValueError(f"doc_id: expected an integer, got {dumps(doc_id)[:60]}")
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
        listed=_list_of_choices(entry.get("doc"), choices) if listed else (),
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
    raise ValueError(
        "the choices are in the prompts, so target is not the reference; acc shows it only for "
        "answers that are right, or between two choices"
    )


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
            raise ValueError(f"{name}_hash: the {name} of this line is not the one that was hashed")


def _check_answer(line: Line) -> None:
    """Compare the answers that pairs of metrics state with the log-likelihoods.

    Raises:
        ValueError: they differ.
    """
    for name in _WITH_ANSWER:
        pair = line.values.get(name)
        if isinstance(pair, list) and len(pair) == 2 and pair[1] != line.answer("acc", ""):
            answer = line.answer("acc", "")
            raise ValueError(
                f"{name} states answer {dumps(pair[1])[:20]}; the most likely is {answer}"
            )


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
        raise ValueError(
            f"arguments: expected requests of a multiple-choice task, got {dumps(value)[:60]}"
        )
    if len(pairs) < 2 or not all(isinstance(text, str) for _, text in pairs):
        other = "one text whose likelihood is measured (loglikelihood)"
        if isinstance(pairs[0][1], dict):
            other = "a generated text (generate_until)"
        raise OtherTaskError(f"not multiple choice, but {other}")
    return tuple(str(a) for a, _ in pairs), tuple(str(b) for _, b in pairs)


def _responses(value: Json, choices: int) -> tuple[tuple[float, ...], tuple[bool, ...]]:
    """Return log-likelihoods, and whether each is that of greedy decoding.

    Raises:
        ValueError: there are not as many, or they cannot be log-likelihoods.
    """
    responses = value if isinstance(value, list) else []
    pairs = [pair for pair in responses if isinstance(pair, list) and len(pair) == 2]
    if len(pairs) != choices or len(responses) != choices:
        raise ValueError(
            f"filtered_resps: expected {choices} pairs of log-likelihood and greediness, got "
            f"{dumps(value)[:60]}; generated texts have no probabilities of the answers"
        )
    numbers = tuple(_number(pair[0]) for pair in pairs)
    if not all(map(math.isfinite, numbers)):
        found = dumps([pair[0] for pair in pairs])[:60]
        raise ValueError(f"filtered_resps: expected finite log-likelihoods, got {found}")
    if max(numbers) > _ROUNDING:
        raise ValueError(
            "filtered_resps: expected log-likelihoods, which are at most 0, got positive numbers: "
            "the log is not of likelihoods"
        )
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


def _list_of_choices(doc: Json, choices: Sequence[str]) -> tuple[str, ...]:
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


_CLOSE: Final = 1e-9
_OWN_AGGREGATIONS: Final = {
    **dict.fromkeys((*METRICS, "exact_match"), "mean"),
    "f1": "f1",
    "mcc": "matthews_corrcoef",
    "brier_score": "brier_score",
}
_DROPS_DELIMITER: Final = (0, 4, 6)
_KEEPS_WITH_PREFIX: Final = (0, 4, 10)
_OF_RUN: Final = (
    *("model_name", "model_source", "chat_template_sha", "system_instruction_sha", "git_hash"),
    *("lm_eval_version", "transformers_version", "date"),
)
_OF_MODEL: Final = (
    *("model", "model_args", "model_sha", "model_revision", "model_dtype", "peft_sha"),
)
_OF_TASK: Final = ("n-shot", "versions", "task_hashes")


def delimiters_of(results: Mapping[str, Any] | None, task: str) -> tuple[str, ...]:
    """Return what may be between a prompt and a choice; one value if the results say it.

    A chat template drops the delimiter of the task from version 0.4.6 on. From 0.4.10 on, one
    stays after a `gen_prefix` that does not end with a space.

    Examples:
        >>> plain = {"lm_eval_version": "0.4.9", "configs": {"arc": {"target_delimiter": " "}}}
        >>> delimiters_of(plain, "arc"), delimiters_of(plain | {"chat_template": "{{ x }}"}, "arc")
        ((' ',), ('',))
        >>> delimiters_of(None, "arc")
        (' ', '')
    """
    facts = results or {}
    config = as_dict(at(facts, "configs", task))
    delimiter, version = config.get("target_delimiter"), _version(facts.get("lm_eval_version"))
    chat = facts.get("chat_template") or facts.get("chat_template_sha")
    prefix = config.get("gen_prefix")
    if chat and version >= _DROPS_DELIMITER:
        ends_open = isinstance(prefix, str) and bool(prefix[-1:].strip())
        if not (ends_open and version >= _KEEPS_WITH_PREFIX):
            return ("",)
    if isinstance(delimiter, str) and (not chat or version):
        return (delimiter,)
    return (" ", "")


def contradictions(
    results: Mapping[str, Any],
    task: str,
    filter_name: str,
    scored: Sequence[tuple[Line, tuple[int, ...]]],
    delimiter: str,
) -> Iterator[str]:
    """Yield where the results do not fit the samples of a task.

    Args:
        results: what `results_<date>.json` says.
        task: its name there.
        filter_name: the filter that was read.
        scored: lines, with their right answers.
        delimiter: what is between a prompt and a choice.
    """
    published = as_dict(at(results, "results", task))
    for metric, aggregation in _OWN_AGGREGATIONS.items():
        logged = published.get(f"{metric},{filter_name}", published.get(metric))
        if not isinstance(logged, int | float) or _aggregation(results, task, metric) not in (
            None,
            aggregation,
        ):
            continue
        ours = _value(metric, scored, delimiter)
        if ours is not None and abs(ours - logged) > _CLOSE:
            what = "accuracy" if metric == "acc" else metric
            yield f"{what} is {ours:.6f}, that of the results {logged:.6f}"


def sample_hash(lines: Sequence[Line]) -> str | None:
    """Return the hash that the results have of the samples of a task; None if lines lack hashes."""
    if not all(line.hashes for line in lines):
        return None
    return hashlib.sha256("".join(line.hashes for line in lines).encode()).hexdigest()


def documents_of(results: Mapping[str, Any] | None, task: str) -> tuple[int, int] | None:
    """Return how many documents a task has, and how many were asked; None if it is not known."""
    original, asked = (at(results, "n-samples", task, key) for key in ("original", "effective"))
    if not isinstance(original, int) or not isinstance(asked, int) or not asked:
        return None  # without metrics, 0 are counted
    return original, asked


def asked_of(results: Mapping[str, Any], task: str) -> float | None:
    """Return the largest number of documents that were asked; None if it is not known."""
    counts = documents_of(results, task)
    limit = at(results, "config", "limit")
    if counts is not None:
        return counts[1]
    return limit if isinstance(limit, int | float) and limit >= 1 else None


def provenance_of(results: Mapping[str, Any], tasks: Sequence[str]) -> dict[str, Json]:
    """Return what the results say of the run, the model and the tasks that are read."""
    block: dict[str, Any] = {
        name: results[name] for name in _OF_RUN if results.get(name) is not None
    }
    template = results.get("chat_template")
    if isinstance(template, str) and template:
        block.setdefault("chat_template_sha", hashlib.sha256(template.encode()).hexdigest())
    for name in _OF_TASK:
        by_task = as_dict(results.get(name))
        if kept := {task: by_task[task] for task in tasks if task in by_task}:
            block[name] = kept
    config = as_dict(results.get("config"))
    if config:
        block["config"] = {name: config[name] for name in _OF_MODEL if config.get(name)}
    return block


def _version(value: Json) -> tuple[int, ...]:
    """Return a version as numbers; none if it is not known.

    Examples:
        >>> _version("0.4.9.2"), _version("0.5.0.dev1"), _version(None)
        ((0, 4, 9), (0, 5, 0), ())
    """
    return tuple(int(part) for part in str(value or "").split(".")[:3] if part.isdecimal())


def _aggregation(results: Mapping[str, Any], task: str, metric: str) -> Json:
    """Return how a task aggregates a metric, as far as its results say."""
    listed = at(results, "configs", task, "metric_list")
    entries = map(as_dict, listed if isinstance(listed, list) else [])
    return next(
        (entry.get("aggregation") for entry in entries if entry.get("metric") == metric), None
    )


def _value(
    metric: str, scored: Sequence[tuple[Line, tuple[int, ...]]], delimiter: str
) -> float | None:
    """Return a metric by our reading; None if a line lacks it, or it cannot be computed."""
    if any(line.values.get(metric) is None for line, _ in scored):
        return None
    if metric == "exact_match":
        return _mean([any(line.greedy[at] for at in right) for line, right in scored])
    if known := [name for name in METRICS if name == metric]:
        answers = [line.answer(known[0], delimiter) for line, _ in scored]
        right_answers = [right for _, right in scored]
        if None in answers:
            return None
        return _mean([a in right for a, right in zip(answers, right_answers, strict=True)])
    if any(len(right) > 1 for _, right in scored):
        return None
    pairs = [(right[0], line.answer("acc", delimiter) or 0) for line, right in scored]
    if metric == "f1":
        return _f1(pairs)
    return _mcc(pairs) if metric == "mcc" else _brier(scored)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _f1(pairs: Sequence[tuple[int, int]]) -> float | None:
    """Return F1 of answer 1, as scikit-learn does for two answers; None for more answers."""
    if any(max(pair) > 1 for pair in pairs):
        return None
    positives = sum(right + answer for right, answer in pairs)
    return 2 * sum(right * answer for right, answer in pairs) / positives if positives else None


def _mcc(pairs: Sequence[tuple[int, int]]) -> float:
    """Return Matthews' correlation of several classes (Gorodkin 2004); 0 for a constant."""
    n = len(pairs)
    right, answers = Counter(pair[0] for pair in pairs), Counter(pair[1] for pair in pairs)
    covariance = n * sum(a == b for a, b in pairs) - sum(right[c] * answers[c] for c in right)
    spread = math.prod(n * n - sum(c * c for c in each.values()) for each in (right, answers))
    return covariance / math.sqrt(spread) if spread else 0.0


def _brier(scored: Sequence[tuple[Line, tuple[int, ...]]]) -> float:
    """Return the mean squared distance of the probabilities from the right answer."""
    distances = []
    for line, right in scored:
        largest = max(line.log_likelihoods)
        weights = [math.exp(value - largest) for value in line.log_likelihoods]
        shares = [weight / math.fsum(weights) for weight in weights]
        distances.append(math.fsum((p - (at in right)) ** 2 for at, p in enumerate(shares)))
    return _mean(distances)


_DATE: Final = r"\d{4}-\d\d-\d\dT[\d.:-]+"
_SAMPLES: Final = re.compile(rf"samples_(?P<task>.+)_(?P<date>{_DATE})\.jsonl")
_RESULTS: Final = re.compile(rf".*_(?P<date>{_DATE})\.json|results\.json")
_OLD_SAMPLES: Final = re.compile(rb'\s*\[\s*\{\s*"doc_id"\s*:')
_START: Final = 256
_DEEPEST: Final = ("", "*/", "*/*/")
_SHOWN: Final = 20


@dataclass(frozen=True)
class HarnessRun:
    """One run: the files of samples of one folder and date.

    Attributes:
        samples: a file per task.
        folder: their folder.
        date: as in the names of its files; None if they have none.
        given: whether the user gave the one file of samples, of however many.
    """

    samples: tuple[Path, ...]
    folder: Path
    date: str | None
    given: bool = False

    @cached_property
    def results_file(self) -> Path | None:
        """The results next to the samples; None if they are not there."""
        name = "results.json" if self.date is None else f"*_{self.date}.json"
        found = sorted(self.folder.glob(name))
        return next((path for path in found if path.name.startswith("results_")), (*found, None)[0])

    @cached_property
    def results(self) -> Mapping[str, Any] | None:
        """What the results say; None if they are not there.

        Raises:
            InputError: they cannot be read.
        """
        return None if self.results_file is None else read_large_json(self.results_file)

    def task_of(self, file: Path) -> str:
        """Return the name of the task of a file: from its name, or from the results."""
        named = _SAMPLES.fullmatch(file.name)
        return named["task"] if named else _old_task(file.stem, self.results or {})


def is_samples(content: bytes) -> bool:
    """Return whether a file begins as samples of lm-evaluation-harness below 0.4.3 do."""
    return _OLD_SAMPLES.match(content) is not None


def is_results(path: Path, content: bytes) -> bool:
    """Return whether a file has the name and the first key of results."""
    named = _RESULTS.fullmatch(path.name) is not None
    return named and re.match(rb'\s*\{\s*"results"\s*:\s*\{', content) is not None


def runs_in(folder: Path) -> list[HarnessRun]:
    """Return the runs of a folder, or of the folders up to two levels deeper, hidden ones included.

    A folder with samples of its own hides what is deeper.
    """
    for deeper in _DEEPEST:
        by_run: dict[tuple[Path, str | None, str], list[Path]] = {}
        for file in sorted(folder.glob(f"{deeper}*.jsonl")):
            named = _SAMPLES.fullmatch(file.name)
            if named or _is_old(file):
                model = "" if named else _old_model(file)
                key = (file.parent, named["date"] if named else None, model)
                by_run.setdefault(key, []).append(file)
        if by_run:
            return [HarnessRun(tuple(files), *key[:2]) for key, files in by_run.items()]
    return []


def run_at(path: Path, options: ImportOptions) -> HarnessRun:
    """Return the run at a path: a file of samples, its results, or a folder.

    Raises:
        InputError: there is no run.
        SeveralFilesError: there are several; the message has the command of each.
    """
    if path.is_dir():
        runs = runs_in(path)
    elif named := _RESULTS.fullmatch(path.name):
        runs = [run for run in runs_in(path.parent) if run.date == named["date"]]
        runs = [run for run in runs if run.folder == path.parent]
    else:
        named = _SAMPLES.fullmatch(path.name)
        runs = [HarnessRun((path,), path.parent, named["date"] if named else None, given=True)]
    if not runs:
        raise InputError(
            f"{path}: expected samples_<task>_<date>.jsonl in the folder, found none; lm_eval "
            "writes them with --log_samples --output_path FOLDER"
        )
    if len(runs) > 1:
        raise SeveralFilesError(_several(path, runs, options))
    return runs[0]


def import_command(path: Path, name: str, options: ImportOptions, *further: str) -> str:
    """Return the command that imports a path with the options of this import, and others."""
    given: list[str] = [*further]
    for option, value in options.settings.items():
        if isinstance(value, str):
            given += [f"--{option.replace('_', '-')}", value]
    return shlex.join(["pact-eval", "import", str(path), *given, "--out", f"runs/{name}"])


def _is_old(file: Path) -> bool:
    with reading(file), open_regular(file) as opened:
        return is_samples(opened.read(_START))


def _old_task(stem: str, results: Mapping[str, Any]) -> str:
    """Return the task at the end of a name, if the results have it; else the whole name."""
    tasks = sorted(as_dict(results.get("configs")), key=len, reverse=True)
    return next((task for task in tasks if stem.endswith(f"_{task}")), stem)


def _old_model(file: Path) -> str:
    """Return what comes before the task in a name of version 0.4.2: the arguments of the model."""
    run = HarnessRun((file,), file.parent, None)
    return file.stem.removesuffix(run.task_of(file))


def _several(path: Path, runs: Sequence[HarnessRun], options: ImportOptions) -> str:
    """Return the message for several runs: what each is, and the command that imports it."""
    lines = []
    for run in runs[:_SHOWN]:
        model = str((run.results or {}).get("model_name") or run.folder.name)
        tasks = ", ".join(map(run.task_of, run.samples[:4])) + ", ..." * (len(run.samples) > 4)
        shots = sorted(set(map(str, as_dict((run.results or {}).get("n-shot")).values())))
        few = f", {' and '.join(shots)} shots" if shots else ""
        lines.append(f"  {model} of {(run.date or 'no date')[:19]}: {tasks}{few}")
        name = _name(path, run, runs)
        named = {file: f"{name}-{run.task_of(file)}" for file in run.samples}
        if run.results_file is not None and run.date is not None:
            named = {run.results_file: name}
        lines += [f"    {import_command(file, name, options)}" for file, name in named.items()]
    more = f"\n  and {len(runs) - _SHOWN:,} more" if len(runs) > _SHOWN else ""
    listed = "\n".join(lines)
    return f"{path}: {len(runs)} runs of lm-evaluation-harness; import one of them:\n{listed}{more}"


def _name(path: Path, run: HarnessRun, runs: Sequence[HarnessRun]) -> str:
    """Return a name for a run: that of its folder, with the date if the folder has others."""
    parts = run.folder.relative_to(path).parts if path.is_dir() else ()
    name = "-".join(part.strip("._") for part in parts) or run.folder.resolve().name.strip("._")
    siblings = [other for other in runs if other.folder == run.folder]
    return name if len(siblings) == 1 else f"{name}-{run.date or 'old'}"
