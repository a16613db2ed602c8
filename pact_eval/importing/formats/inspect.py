"""Source "inspect": logs of multiple-choice tasks of Inspect, `.eval` or `.json`.

A `.eval` file is a zip archive: `header.json` says what was run, `summaries.json` has answer and
score of every sample, and `samples/{id}_epoch_{n}.json` all of it. A `.json` file is one object:

    {"version": 2, "status": "success", "eval": {"task", "model", ...}, "plan": {...},
     "results": {...}, "samples": [{"id", "epoch", "choices", "target": "B", "output": {...},
                                    "scores": {"choice": {"value": "C", "answer": "B", ...}}}]}

The canonical order of the answers is that of their texts. So runs of the same questions agree
whatever order each was shown in, and the order that was shown is the `code_order` of the view. The
epochs of a sample are repeats: the accuracy of Inspect is the mean over them. They repeat one
prompt, unless the solver shuffles the choices; then their orders tell what follows a letter.

A target may be several letters. The scorer `choice` then counts the answer as right that names all
of them. With `--multi any`, an answer that names one of them counts here too, and a remark says so.

Probabilities are read from the samples, whatever the header says, if every answer has them: the
letter after "ANSWER:" is looked for among the tokens of the output, with its `top_logprobs`. A
letter that is not listed there has at most the probability of the least probable token that is, and
at most what the listed ones leave.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pact_eval._json import Json, describe
from pact_eval.errors import InputError, Problem
from pact_eval.importing.source import (
    ImportOptions,
    Log,
    LogFacts,
    LogRow,
    Outcome,
    Source,
    Start,
    as_dict,
    by_text,
    loads_with_constants,
    read_large_json,
)
from pact_eval.importing.zip_members import ZipMembers
from pact_eval.runs.provenance import REPEATS, SHUFFLED

_ZIP: Final = b"PK\x03\x04"
_HEADER: Final = "header.json"
_SUMMARIES: Final = "summaries.json"
_SHUFFLED: Final = "Choices were shuffled before generating a response"
_CHOICE: Final = "choice"
_LETTERS: Final = 26
_OUTCOMES: Final[Mapping[Any, bool]] = {"C": True, "I": False, "N": False, 1: True, 0: False}
_ANSWER: Final = re.compile(r"ANSWER\s*:", re.IGNORECASE)
_CLOSE: Final = 1e-9
# Log-probabilities are rounded, so their sum may leave less than nothing for other tokens.
_LEAST_LEFT: Final = 1e-6


class Inspect(Source):
    """Logs of Inspect."""

    title = "Inspect"
    reads = "`.eval`, `.json`"

    def recognises(self, start: Start) -> bool:
        """A zip archive, or a JSON object with the keys of a log."""
        if start.content.startswith(_ZIP):
            return start.path.suffix == ".eval"
        keys = (b'"version"', b'"status"', b'"eval_id"')
        content = start.content.lstrip()
        return content.startswith(b"{") and all(key in content for key in keys)

    def open(self, path: Path, options: ImportOptions) -> Log:
        """Open a log.

        Raises:
            InputError: it cannot be read, or is the log of a run that did not finish.
        """
        reader = _EvalFile(path) if path.suffix == ".eval" else _JsonFile(path)
        log = _Log(reader, options)
        return Log(log.rows(), (path,), log.facts)


SOURCE: Final = Inspect()
"""The entry of the registry."""


class _EvalFile:
    """A `.eval` file: samples are read only if their summaries do not say enough."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with ZipMembers(path) as members:
            if _HEADER not in members.names:
                message = (
                    f"{path}: the run did not finish (no {_HEADER}); `inspect log` can recover it"
                )
                raise InputError(message)
            self.header = as_dict(loads_with_constants(members.read(_HEADER), f"{path}: {_HEADER}"))
            summaries = loads_with_constants(members.read(_SUMMARIES), f"{path}: {_SUMMARIES}")
        self.samples: Sequence[Any] = summaries if isinstance(summaries, list) else []

    def with_details(self) -> Iterator[dict[str, Any]]:
        """Yield every sample in full."""
        with ZipMembers(self.path) as members:
            for sample in self.samples:
                name = f"samples/{sample.get('id')}_epoch_{sample.get('epoch')}.json"
                if name not in members.names:  # an id with characters that a name cannot have
                    yield dict(sample)
                    continue
                yield as_dict(loads_with_constants(members.read(name), f"{self.path}: {name}"))


class _JsonFile:
    """A `.json` file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        shorter = "; convert it with `inspect log convert --to eval`"
        self.header = read_large_json(path, too_long=shorter)
        samples = self.header.pop("samples", None)
        self.samples: Sequence[Any] = samples if isinstance(samples, list) else []

    def with_details(self) -> Iterator[dict[str, Any]]:
        """Yield every sample in full."""
        for sample in self.samples:
            yield as_dict(sample)


@dataclass(frozen=True)
class _LetterLogProbs:
    """The log-probabilities of letters at one token.

    Attributes:
        values: (C,) in canonical order; None for a letter that is not listed.
        ceiling: the largest that such a letter can have.
    """

    values: tuple[float | None, ...]
    ceiling: float


@dataclass(frozen=True)
class _Sample:
    """One sample in one epoch, as read.

    Attributes:
        name: "sample <id>, epoch <n>", in messages.
        id: of the sample.
        epoch: from 1.
        order: (C,) canonical index of every choice as logged.
        shown: (C,) canonical index at every letter as shown.
        references: canonical indices of the right answers.
        answer: canonical index; None if there is none.
        correct: whether the scorer counts it as right; None if it has not scored it.
        problem: why there is no answer.
        status: of an item without one.
        log_probs: those of the letters in canonical order; None if they are not known.
        labels: what names family and domain, if not the task.
    """

    name: str
    id: str
    epoch: int
    order: tuple[int, ...]
    shown: tuple[int, ...]
    references: tuple[int, ...]
    answer: int | None
    correct: bool | None
    status: str | None
    problem: str | None
    log_probs: _LetterLogProbs | None
    labels: Mapping[str, Json]


class _NoScorerError(ValueError):
    """The scorer whose scores are read was not named, or does not exist."""


class _Log:
    """A log: its rows, and what it says of itself."""

    def __init__(self, reader: _EvalFile | _JsonFile, options: ImportOptions) -> None:
        self._reader = reader
        self._grouping = options.grouping
        self._scorer = options.scorer
        self._any_right = options.multi is not None
        self._part_of_several = 0
        header = reader.header
        self._eval = as_dict(header.get("eval"))
        self._task = str(self._eval.get("task") or reader.path.stem)
        self._results = as_dict(header.get("results"))
        self._plan = as_dict(header.get("plan"))
        self._logprobs = any(
            as_dict(config).get("logprobs")
            for config in (self._plan.get("config"), self._eval.get("model_generate_config"))
        )
        self._epochs = 1
        self._shuffled = False
        self._without_probabilities = 0
        self._scored = 0
        self._status = str(header.get("status"))

    def rows(self) -> Iterator[LogRow | Problem]:
        """Yield the rows; whether there are probabilities depends on all samples."""
        samples: list[_Sample] = []
        problems: list[Problem] = []
        for number, entry in enumerate(self._entries(), start=1):
            name = f"sample {entry.get('id', number)}, epoch {entry.get('epoch', 1)}"
            try:
                samples.append(self._sample(entry, name))
            except _NoScorerError as error:  # the samples after it have the same scorers
                yield Problem(None, None, str(error))
                return
            except ValueError as error:
                problems.append(Problem(None, name, str(error)))
        yield from problems
        if problems:
            return
        answered = [sample for sample in samples if sample.answer is not None]
        self._epochs = max((sample.epoch for sample in samples), default=1)
        self._without_probabilities = sum(sample.log_probs is None for sample in answered)
        self._scored = sum(sample.correct is not None for sample in samples)
        for sample in samples:
            yield LogRow(None, sample.name, self._row(sample))

    def _entries(self) -> Iterator[dict[str, Any]]:
        """Yield summaries, or whole samples where the summaries do not say enough."""
        first = [as_dict(sample) for sample in self._reader.samples]
        shuffled = any(
            str(as_dict(score).get("explanation")).startswith(_SHUFFLED)
            for entry in first
            for score in as_dict(entry.get("scores")).values()
        )
        incomplete = shuffled or any(not entry.get("choices") for entry in first)
        self._logprobs = self._logprobs or self._has_log_probs()
        if self._logprobs or incomplete:
            return self._reader.with_details()
        return iter(first)

    def _has_log_probs(self) -> bool:
        """Return whether the first answer has log-probabilities; without them, the run has none."""
        entries = map(as_dict, self._reader.with_details())
        answered = (
            entry
            for entry in entries
            if any(as_dict(score).get("answer") for score in as_dict(entry.get("scores")).values())
        )
        return bool(_tokens_of_answer(next(answered, {})))

    def _sample(self, entry: dict[str, Any], name: str) -> _Sample:
        """Read one sample.

        Raises:
            ValueError: it is not a multiple-choice question with one right answer.
        """
        choices = entry.get("choices")
        if not isinstance(choices, list) or len(choices) < 2:
            message = (
                f"choices: expected a list of answers, got {describe(choices)}; only tasks of "
                "multiple choice can be imported"
            )
            raise ValueError(message)
        order = by_text([str(choice) for choice in choices])
        target = tuple(dict.fromkeys(_positions(entry.get("target"), len(choices))))
        score = self._score(entry, name)
        shown = _shown_order(str(score.get("explanation") or ""), [str(c) for c in choices])
        self._shuffled |= shown is not None
        shown_order = tuple(order[at] for at in (shown or range(len(choices))))
        answer, status, why = _answer(entry, score, target, len(choices))
        log_probs = None
        if answer is not None and self._logprobs:
            log_probs = _letter_log_probs(entry, shown_order, order[answer])
        outcome = score.get("value")
        correct = _OUTCOMES.get(outcome) if isinstance(outcome, str | int | float) else None
        return _Sample(
            name=name,
            id=str(entry.get("id")),
            epoch=_epoch(entry.get("epoch")),
            order=order,
            shown=shown_order,
            references=tuple(sorted(order[at] for at in target)),
            answer=None if answer is None else order[answer],
            correct=correct,
            status=status,
            problem=why,
            log_probs=log_probs,
            labels=self._grouping.of_entry(entry),
        )

    def _score(self, entry: dict[str, Any], name: str) -> dict[str, Any]:
        """Return the score of one scorer: the one asked for, `choice`, or the only one."""
        scores = as_dict(entry.get("scores"))
        if entry.get("error") or not scores:
            return {}
        scorer = self._scorer or (_CHOICE if _CHOICE in scores else None)
        if scorer is None and len(scores) == 1:
            (scorer,) = scores
        if scorer not in scores:
            available = f"{name} has scores of {', '.join(scores)}"
            if self._scorer is not None:
                message = f"--scorer {self._scorer}: there is no such scorer; {available}"
            else:
                message = f"{available}; choose one with --scorer"
            raise _NoScorerError(message)
        return as_dict(scores[scorer])

    def _row(self, sample: _Sample) -> dict[str, Json]:
        row: dict[str, Json] = {
            "id": sample.id,
            "domain": self._task,
            "reference": [*sample.references]
            if len(sample.references) > 1
            else sample.references[0],
            "view": sample.epoch - 1,
            "n_choices": len(sample.order),
            **sample.labels,
        }
        if sample.answer is None:
            scored = sample.correct is not None
            return row | {"status": sample.status, "reason": sample.problem, "scored": scored}
        correct = sample.correct
        if self._any_right and correct is False and len(sample.references) > 1:
            # Right by --multi any; the scorer asks for all of the letters.
            correct = sample.answer in sample.references
            self._part_of_several += correct
        row |= {"code_order": [*sample.shown], "answer": sample.answer, "correct": correct}
        if sample.log_probs is not None and not self._without_probabilities:
            values = sample.log_probs.values
            row["logits"] = [*values]
            listed = [value for value in values if value is not None]
            if len(listed) < len(values):
                row["ceiling"] = sample.log_probs.ceiling
            row["answer_mass"] = min(1.0, math.fsum(map(math.exp, listed)))
        return row

    def facts(self, outcome: Outcome) -> LogFacts:
        """Return provenance; compare our accuracy with that of the log."""
        block: dict[str, Json] = {"task": self._task, "status": self._status}
        kept = ("created", "task_version", "model_base_url", "solver", "packages", "revision")
        block |= {name: self._eval[name] for name in kept if self._eval.get(name)}
        dataset = as_dict(self._eval.get("dataset"))
        block["dataset"] = {n: dataset[n] for n in ("name", "location", "shuffled") if n in dataset}
        block["epochs"] = self._epochs
        if self._epochs > 1:
            block["views"] = SHUFFLED if self._shuffled else REPEATS
        remarks = []
        if self._status != "success":
            remarks.append(f"The log has the status {self._status}: it may lack samples.")
        if self._logprobs and self._without_probabilities:
            remarks.append(
                f"{self._without_probabilities:,} answers have no log-probability of their letter, "
                "so the run has answers without probabilities."
            )
        if self._part_of_several:
            remarks.append(
                f"{self._part_of_several:,} answers are one of several right letters: right by "
                "--multi any, and wrong by the scorer of the log, which asks for all of them."
            )
        if self._after_reasoning():
            block["after_reasoning"] = True
            remarks.append("The model reasons first: each answer depends on what it has written.")
        model = self._eval.get("model")
        problems = tuple(self._contradictions(outcome))
        return LogFacts(block, model if isinstance(model, str) else None, tuple(remarks), problems)

    def _after_reasoning(self) -> bool:
        steps = self._plan.get("steps")
        plan_steps = steps if isinstance(steps, list) else []
        return any(as_dict(as_dict(step).get("params")).get("cot") for step in plan_steps)

    def _contradictions(self, outcome: Outcome) -> Iterator[Problem]:
        """Yield the accuracy that differs: mean over all scored samples, unanswered ones wrong."""
        scores = self._results.get("scores")
        for score in scores if isinstance(scores, list) else []:
            scorer = self._scorer or _CHOICE
            metric = as_dict(as_dict(as_dict(score).get("metrics")).get("accuracy"))
            logged, reducer = metric.get("value"), as_dict(score).get("reducer")
            if as_dict(score).get("name") != scorer or reducer not in (None, "mean"):
                continue
            if not isinstance(logged, int | float) or not self._scored:
                continue
            ours = (outcome.correct - self._part_of_several) / self._scored
            if abs(ours - logged) > _CLOSE:
                message = f"accuracy is {ours:.6f}, that of the log {logged:.6f}"
                yield Problem(None, None, message)


def _answer(
    entry: Mapping[str, Any], score: Mapping[str, Any], target: Sequence[int], choices: int
) -> tuple[int | None, str | None, str | None]:
    """Return the choice of a sample as logged; without one, its status and the reason."""
    error = entry.get("error")
    if error:
        message = error.get("message") if isinstance(error, dict) else error
        return None, "failed", str(message)[:200]
    if not score:
        return None, "failed", "the sample has no score"
    answer = score.get("answer")
    if not isinstance(answer, str) or not answer.strip():
        reason = str(score.get("reason") or "no answer")
        return None, "missing" if reason == "no_response" else "failed", reason
    positions = _positions(answer, choices)
    if len(positions) != 1 and {*positions} != {*target}:
        return None, "failed", f"several answers: {answer[:60]}"
    return positions[0], None, None  # of all right letters, the first stands for them


def _positions(value: Any, choices: int) -> list[int]:
    """Return the choices that letters name: A is 0, and 1 follows Z.

    Raises:
        ValueError: a letter names no choice.

    Examples:
        >>> _positions("B", 3), _positions(["A", "C"], 3), _positions("1", 30)
        ([1], [0, 2], [26])
    """
    texts = value if isinstance(value, list) else [value]
    positions = []
    for text in texts:
        for token in str(text).replace(",", " ").split():
            letters = [token] if token.isdecimal() or len(token) == 1 else [*token]
            positions += [_position(letter) for letter in letters]
    if not positions or not all(0 <= position < choices for position in positions):
        message = f"expected a letter of one of {choices} choices, got {value!r:.60}"
        raise ValueError(message)
    return positions


def _position(letter: str) -> int:
    if letter.isdecimal():
        return _LETTERS - 1 + int(letter) if int(letter) > 0 else -1
    return ord(letter.upper()) - ord("A") if letter.isascii() and letter.isalpha() else -1


def _letter(position: int) -> str:
    return chr(ord("A") + position) if position < _LETTERS else str(position - _LETTERS + 1)


def _epoch(value: Json) -> int:
    """Return the epoch of a sample; 1 if the log does not say.

    Raises:
        ValueError: it is not an integer.
    """
    if value is None:
        return 1
    if isinstance(value, bool) or not isinstance(value, int):
        message = f"epoch: expected an integer, got {describe(value)}"
        raise ValueError(message)
    return value


def _shown_order(explanation: str, choices: Sequence[str]) -> tuple[int, ...] | None:
    r"""Return the choice at every letter if the solver has shuffled them; None if it has not.

    Raises:
        ValueError: the explanation says so, and not how.

    Examples:
        >>> explanation = "Choices were shuffled before generating a response, ...\nA) no\nB) yes\n"
        >>> _shown_order(explanation + "Shuffled answer:\nANSWER: A", ["yes", "no"])
        (1, 0)
    """
    if not explanation.startswith(_SHUFFLED):
        return None
    text = explanation[explanation.index("A) ") :] if "A) " in explanation else ""
    left, order = set(range(len(choices))), []
    for place in range(len(choices)):
        last = place == len(choices) - 1
        end = "\nShuffled answer:" if last else f"\n{_letter(place + 1)}) "
        start = f"{_letter(place)}) "
        # The longest first: a choice may begin with another one.
        by_length = sorted(left, key=lambda at: -len(choices[at]))
        fit = [at for at in by_length if text.startswith(start + choices[at] + end)]
        if not fit:
            message = "the choices were shuffled, and the explanation does not say how"
            raise ValueError(message)
        left.remove(fit[0])
        order.append(fit[0])
        text = text[len(start + choices[fit[0]]) + 1 :]
    return tuple(order)


def _letter_log_probs(
    entry: Mapping[str, Any], shown: Sequence[int], answer: int
) -> _LetterLogProbs | None:
    """Return the log-probabilities of the letters; None if that of the answer is not known.

    Args:
        entry: a sample in full.
        shown: (C,) canonical index at every letter.
        answer: canonical index of the answer, which must be the letter that is found.
    """
    if len(shown) > _LETTERS:
        return None
    listed = _tokens_of_answer(entry)
    letters = {_letter(place): place for place in range(len(shown))}
    text, answer_token = "", None
    for token in listed:
        before, text = text, text + str(token.get("token"))
        # The last letter after the last "ANSWER:".
        if _ANSWER.search(before) and str(token.get("token")).strip() in letters:
            answer_token = token
    if answer_token is None or shown[letters[str(answer_token["token"]).strip()]] != answer:
        return None
    at_token = _listed(answer_token)
    masses: dict[int, list[float]] = {}
    for text, value in at_token.items():
        place = letters.get(text.strip())
        if place is not None:  # "B" and " B" may both be listed
            masses.setdefault(shown[place], []).append(value)
    if answer not in masses:
        return None
    left = 1.0 - math.fsum(map(math.exp, at_token.values()))
    return _LetterLogProbs(
        tuple(_log_sum(masses[at]) if at in masses else None for at in range(len(shown))),
        min(min(at_token.values()), math.log(max(left, _LEAST_LEFT))),
    )


def _listed(token: Mapping[str, Any]) -> dict[str, float]:
    """Return the log-probabilities of the tokens listed at a place, the generated one included."""
    log_prob_of: dict[str, float] = {}
    for alternative in (*(token.get("top_logprobs") or ()), token):
        value = as_dict(alternative).get("logprob")
        if isinstance(value, int | float) and not isinstance(value, bool):
            log_prob_of.setdefault(str(as_dict(alternative).get("token")), float(value))
    return log_prob_of


def _tokens_of_answer(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    outputs = as_dict(entry.get("output")).get("choices")
    first = as_dict(outputs[0]) if isinstance(outputs, list) and outputs else {}
    content = as_dict(first.get("logprobs")).get("content")
    return [as_dict(token) for token in content] if isinstance(content, list) else []


def _log_sum(values: Sequence[float]) -> float:
    most = max(values)
    return most + math.log(math.fsum(math.exp(value - most) for value in values))
