"""Source "inspect": logs of multiple-choice tasks of Inspect, `.eval` or `.json`.

A `.eval` file is a zip archive: `header.json` says what was run, `summaries.json` has answer and
score of every sample, and `samples/{id}_epoch_{n}.json` all of it. A `.json` file is one object:

    {"version": 2, "status": "success", "eval": {"task", "model", ...}, "plan": {...},
     "results": {...}, "samples": [{"id", "epoch", "choices", "target": "B", "output": {...},
                                    "scores": {"choice": {"value": "C", "answer": "B", ...}}}]}

The canonical order of the answers is that of their texts. So runs of the same questions agree
whatever order each was shown in, and the order that was shown is the `code_order` of the view. The
epochs of a sample are repeats if the log reduces them by their mean. They repeat one prompt, unless
the solver shuffles the choices; then their orders tell what follows a letter. Another reducer, such
as `mode`, leaves one answer per sample: that of an epoch with the reduced value.

Targets are letters, or texts of choices: the reading that fits every sample and its score. Several
letters that are all the text of a choice ("AC") are that text. A target may be several letters. The
scorer `choice` then counts the answer as right that names all of them. With `--multi any`, an
answer that names one of them counts here too, and a remark says so.

Probabilities are read from the samples, whatever the header says, if every answer has them: the
letter after "ANSWER:" is looked for among the tokens of the output, with its `top_logprobs`, where
tokens with one text are summed. A letter that is not listed there has at most the probability of
the least probable token that is, and at most what the listed ones leave.

A score that is neither right nor wrong (a part, or an object) is no check of an answer; such
answers are counted as unverified. Fewer samples than the dataset has make the run incomplete.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

from pact_eval._json import Json, at, describe
from pact_eval.data.labelled.answers import LETTER, TEXT, Form
from pact_eval.errors import InputError, Problem, ShapeError
from pact_eval.importing.source import (
    ImportOptions,
    Log,
    LogFacts,
    LogRow,
    Source,
    Start,
    as_dict,
    by_text,
    loads_with_constants,
    read_large_json,
)
from pact_eval.importing.table_cells import log_sum
from pact_eval.importing.zip_members import ZipMembers
from pact_eval.runs.predictions import mass_of_log_probabilities
from pact_eval.runs.provenance import REPEATS, SHUFFLED

MEAN: Final = "mean"
_OF_K: Final = re.compile(r"(at_least|pass_at)_(\d+)")


def reduce_epochs(reducer: str, values: Sequence[float | None]) -> float | None:
    """Return the reduced value of a sample; None if the reducer or a value is not known.

    Args:
        reducer: as a log names it.
        values: scores of the epochs; right is 1.

    Examples:
        >>> [reduce_epochs(name, [1.0, 0.0, 1.0]) for name in ("mode", "at_least_3", "pass_at_2")]
        [1.0, 0.0, 1.0]
        >>> reduce_epochs("median", [1.0, 0.0]), reduce_epochs("harmonic", [1.0])
        (0.5, None)
    """
    numbers = [value for value in values if value is not None]
    if not numbers or len(numbers) < len(values):
        return None
    if reducer == "mode":
        return Counter(numbers).most_common(1)[0][0]
    if reducer in (MEAN, "median", "max"):
        return {MEAN: fmean(numbers), "median": median(numbers), "max": max(numbers)}[reducer]
    of_k = _OF_K.fullmatch(reducer)
    if of_k is None:
        return None
    kind, k, n = of_k[1], int(of_k[2]), len(numbers)
    right = sum(number >= 1.0 for number in numbers)
    if kind == "at_least":
        return float(right >= k)
    # At least one right among k drawn from n.
    return 1.0 if n - right < k else 1.0 - math.comb(n - right, k) / math.comb(n, k)


_ZIP: Final = b"PK\x03\x04"
_HEADER: Final = "header.json"
_SUMMARIES: Final = "summaries.json"
_SHUFFLED: Final = "Choices were shuffled before generating a response"
_CHOICE: Final = "choice"
_LETTERS: Final = 26
_VALUES: Final[Mapping[str, float]] = {
    "C": 1.0,
    "I": 0.0,
    "N": 0.0,
    "P": 0.5,
    "yes": 1.0,
    "true": 1.0,
    "no": 0.0,
    "false": 0.0,
}
_NOTHING_RIGHT: Final = "the log counts this answer as right; read as no answer ({})"
_METRICS: Final = ("accuracy", "mean")
_FORMS: Final[tuple[Form, ...]] = (LETTER, TEXT)
"""How targets may name choices."""
_ANSWER: Final = re.compile(r"ANSWER\s*:", re.IGNORECASE)
_CLOSE: Final = 1e-9
# Log-probabilities are rounded, so their sum may leave less than nothing for other tokens.
_LEAST_LEFT: Final = 1e-6
_NEAR: Final = 1e-6


class Inspect(Source):
    """Logs of Inspect."""

    title = "Inspect"
    reads = "`.eval`, `.json`"

    def recognises(self, start: Start) -> bool:
        """A zip archive, or a JSON object with the keys of a log."""
        if start.content.startswith(_ZIP):
            return start.path.suffix == ".eval"
        keys = (b'"status"', b'"eval"', b'"task"', b'"model"')
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
                raise InputError(
                    f"{path}: the run did not finish (no {_HEADER}); `inspect log` can recover it"
                )
            self.header = as_dict(loads_with_constants(members.read(_HEADER), f"{path}: {_HEADER}"))
            summaries = loads_with_constants(members.read(_SUMMARIES), f"{path}: {_SUMMARIES}")
        listed = summaries if isinstance(summaries, list) else []
        self.samples: Sequence[Any] = [*map(as_dict, listed)]

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
        answer: canonical index of the letter that was generated.
    """

    values: tuple[float | None, ...]
    ceiling: float
    answer: int


@dataclass(frozen=True)
class _Sample:
    """One sample in one epoch, as logged, and as read.

    Attributes:
        name: "sample <id>, epoch <n>", in messages.
        id: of the sample.
        epoch: from 1.
        choices: their texts, in the order of the log.
        shown: (C,) canonical index at every letter as shown.
        target: what names the right answers.
        named: what names the answer; "" if there is none.
        value: of the score; None if it is not a number, such as an object.
        scored: whether it has a score.
        status: of an item without an answer.
        problem: why there is no answer.
        log_probs: those of the letters in canonical order; None if they are not known.
        labels: what names family and domain, if not the task.
        references: places of the right answers, once they are read.
        answer: place of the answer, likewise; None if there is none.
    """

    name: str
    id: str
    epoch: int
    choices: tuple[str, ...]
    shown: tuple[int, ...]
    target: tuple[str, ...]
    named: str
    value: float | None
    scored: bool
    status: str | None
    problem: str | None
    log_probs: _LetterLogProbs | None
    labels: Mapping[str, Json]
    references: tuple[int, ...] = ()
    answer: int | None = None

    @property
    def correct(self) -> bool | None:
        """Whether the scorer counts it as right; None if its score does not say."""
        return None if self.value not in (0.0, 1.0) else bool(self.value)

    @property
    def order(self) -> tuple[int, ...]:
        """The canonical index of every choice as logged."""
        return by_text(self.choices)

    def read(self, target: Form, answer: Form) -> _Sample:
        """Return the sample with its right answers and its answer.

        Raises:
            ValueError: they do not name choices in this form.
        """
        references = _places(self.target, self.choices, target)
        if not self.named:
            return replace(self, references=references)
        named = _places((self.named,), self.choices, answer)
        if len(named) != 1 and {*named} != {*references}:
            problem = f"several answers: {self.named[:60]}"
            return replace(self, references=references, status="failed", problem=problem)
        of_answer = self.log_probs is not None and self.log_probs.answer == self.order[named[0]]
        # Of all right letters, the first stands for them.
        return replace(
            self,
            references=references,
            answer=named[0],
            log_probs=self.log_probs if of_answer else None,
        )

    def agrees(self) -> bool:
        """Return whether the answer, as read, is as right as its score says."""
        if self.correct:
            return self.answer in self.references
        several = len(self.references) > 1
        return self.correct is None or several or self.answer not in self.references


class _NoScorerError(ValueError):
    """The scorer whose scores are read was not named, or does not exist."""


class _Log:
    """A log: its rows, and what it says of itself."""

    def __init__(self, reader: _EvalFile | _JsonFile, options: ImportOptions) -> None:
        self._reader = reader
        self._grouping = options.grouping
        scorer, _, reducer = (options.scorer or "").partition(":")
        self._scorer, self._reducer = scorer or None, reducer or None
        self._form = options.reading.form if options.reading.form in _FORMS else None
        self._any_right = options.multi is not None
        self._part_of_several = 0
        header = reader.header
        self._eval = as_dict(header.get("eval"))
        self._task = str(self._eval.get("task") or reader.path.stem)
        self._results = as_dict(header.get("results"))
        self._plan = as_dict(header.get("plan"))
        self._logprobs = any(
            at(config, "logprobs")
            for config in (self._plan.get("config"), self._eval.get("model_generate_config"))
        )
        self._samples: list[_Sample] = []
        self._shuffled = False
        self._without_probabilities = 0
        self._unverified = 0
        self._status = str(header.get("status"))

    def rows(self) -> Iterator[LogRow | Problem]:
        """Yield the rows; what they are depends on all samples."""
        problems: list[Problem] = []
        for number, entry in enumerate(self._entries(), start=1):
            name = f"sample {entry.get('id', number)}, epoch {entry.get('epoch', 1)}"
            try:
                self._samples.append(self._sample(entry, name))
            except _NoScorerError as error:  # the samples after it have the same scorers
                yield Problem(None, None, str(error))
                return
            except ValueError as error:
                problems.append(Problem(None, name, str(error)))
        if not problems:
            self._samples, problems = _read_choices(
                self._samples, self._form, own_scorer=self._used_scorer == _CHOICE
            )
        problems += [
            Problem(None, sample.name, _NOTHING_RIGHT.format(sample.problem))
            for sample in self._samples
            if sample.correct and sample.answer is None
        ]
        yield from problems
        if problems:
            return
        try:
            rows = self._reduce() if self._epochs > 1 else self._samples
        except ValueError as error:
            yield Problem(None, None, str(error))
            return
        answered = [sample for sample in rows if sample.answer is not None]
        self._without_probabilities = sum(sample.log_probs is None for sample in answered)
        self._unverified = sum(sample.correct is None for sample in answered)
        for sample in rows:
            yield LogRow(None, sample.name, self._row(sample))

    @property
    def _epochs(self) -> int:
        return max((sample.epoch for sample in self._samples), default=1)

    @property
    def _used_scorer(self) -> str:
        return self._scorer or _CHOICE

    def _published_means(self) -> Iterator[tuple[str, str, float]]:
        """Yield reducer, metric and value of the means that the log states of the scorer."""
        scores = self._results.get("scores")
        for score in map(as_dict, scores if isinstance(scores, list) else []):
            for name in _METRICS if score.get("name") == self._used_scorer else ():
                value = at(score, "metrics", name, "value")
                if isinstance(value, int | float) and not isinstance(value, bool):
                    yield str(score.get("reducer") or MEAN), name, float(value)

    def _by_id(self) -> dict[str, list[_Sample]]:
        by_id: dict[str, list[_Sample]] = {}
        for sample in self._samples:
            by_id.setdefault(sample.id, []).append(sample)
        return by_id

    def _reduce(self) -> list[_Sample]:
        """Return the samples whose epochs are views, or one epoch of each by the log's reducer.

        Raises:
            ValueError: several reducers, or one that leaves no answer.
        """
        published = [*dict.fromkeys(reducer for reducer, *_ in self._published_means())]
        remedy = f"give --scorer {self._used_scorer}:"
        if self._reducer is None and len(published) > 1 and MEAN not in published:
            raise ValueError(
                f"the log reduces epochs by {' and by '.join(published)}: {remedy}{published[0]} "
                f"for one of them, or {remedy}{MEAN} for every epoch as a view"
            )
        first = MEAN if MEAN in published else next(iter(published), MEAN)
        self._reducer = self._reducer or first
        if self._reducer in (MEAN, "pass_at_1"):
            return [sample for group in self._by_id().values() for sample in self._whole(group)]
        chosen = [self._chosen(group) for group in self._by_id().values()]
        if None in chosen:
            raise ValueError(
                f"the reducer {self._reducer} of the log does not leave one answer per sample: "
                f"{remedy}{MEAN} reads every epoch as a view"
            )
        return [replace(sample, epoch=1) for sample in chosen if sample is not None]

    def _whole(self, epochs: list[_Sample]) -> list[_Sample]:
        """Return the epochs of a sample; none if a log that was stopped lacks some."""
        stopped = self._status != "success" and len(epochs) < self._epochs
        return [] if stopped else epochs

    def _chosen(self, epochs: list[_Sample]) -> _Sample | None:
        """Return the epoch with the reduced value whose answer is the most frequent."""
        values = [sample.value for sample in epochs if sample.scored]
        reduced = reduce_epochs(self._reducer or MEAN, values)
        same = [sample for sample in epochs if sample.scored and sample.value == reduced]
        if reduced not in (0.0, 1.0) or not same:
            return None
        count = Counter(sample.answer for sample in same)
        return max(same, key=lambda sample: (sample.answer is not None, count[sample.answer]))

    def _entries(self) -> Iterator[dict[str, Any]]:
        """Yield summaries, or whole samples where the summaries do not say enough."""
        first = [as_dict(sample) for sample in self._reader.samples]
        shuffled = any(
            str(at(score, "explanation")).startswith(_SHUFFLED)
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
            if any(at(score, "answer") for score in as_dict(entry.get("scores")).values())
        )
        return bool(_tokens_of_answer(next(answered, {})))

    def _sample(self, entry: dict[str, Any], name: str) -> _Sample:
        """Read one sample.

        Raises:
            ValueError: it is not a multiple-choice question with one right answer.
        """
        choices = entry.get("choices")
        if not isinstance(choices, list) or len(choices) < 2:
            raise ValueError(
                f"choices: expected a list of answers, got {describe(choices)}; only tasks of "
                "multiple choice can be imported"
            )
        texts = tuple(map(str, choices))
        order = by_text(texts)
        score = self._score(entry, name)
        shown = _order_shown(str(score.get("explanation") or ""), texts)
        self._shuffled |= shown is not None
        shown_order = tuple(order[at] for at in (shown or range(len(texts))))
        named, status, why = _answer(entry, score)
        target = entry.get("target")
        return _Sample(
            name=name,
            id=str(entry.get("id")),
            epoch=_epoch(entry.get("epoch")),
            choices=texts,
            shown=shown_order,
            target=tuple(map(str, target if isinstance(target, list) else [target])),
            named=named,
            value=_float(score.get("value")),
            scored=score.get("value") is not None,
            status=status,
            problem=why,
            log_probs=_letter_log_probs(entry, shown_order) if named and self._logprobs else None,
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
        self._scorer = scorer
        return as_dict(scores[scorer])

    def _row(self, sample: _Sample) -> dict[str, Json]:
        order = sample.order
        right = sorted(order[place] for place in sample.references)
        row: dict[str, Json] = {
            "id": sample.id,
            "domain": self._task,
            "reference": [*right] if len(right) > 1 else right[0],
            "view": sample.epoch - 1,
            "n_choices": len(order),
            **sample.labels,
        }
        if sample.answer is None:
            scored = sample.scored
            return row | {"status": sample.status, "reason": sample.problem, "scored": scored}
        answer, correct = order[sample.answer], sample.correct
        if self._any_right and correct is False and len(right) > 1:
            # Right by --multi any; the scorer asks for all of the letters.
            correct = answer in right
            self._part_of_several += correct
        row |= {"code_order": [*sample.shown], "answer": answer, "correct": correct}
        if sample.log_probs is not None and not self._without_probabilities:
            values = sample.log_probs.values
            row["logits"] = [*values]
            listed = [value for value in values if value is not None]
            if len(listed) < len(values):
                row["ceiling"] = sample.log_probs.ceiling
            row["answer_mass"] = min(1.0, math.fsum(map(math.exp, listed)))
        return row

    def facts(self) -> LogFacts:
        """Return provenance; compare our accuracy with that of the log."""
        block: dict[str, Json] = {"task": self._task, "status": self._status}
        kept = ("created", "task_version", "model_base_url", "solver", "packages", "revision")
        block |= {name: self._eval[name] for name in kept if self._eval.get(name)}
        dataset = as_dict(self._eval.get("dataset"))
        block["dataset"] = {n: dataset[n] for n in ("name", "location", "shuffled") if n in dataset}
        block["epochs"] = self._epochs
        remarks = []
        if self._epochs > 1 and self._reducer == MEAN:
            block["views"] = SHUFFLED if self._shuffled else REPEATS
        elif self._epochs > 1:
            block["reducer"] = self._reducer
            remarks.append(
                f"One answer per sample, by the reducer {self._reducer} of the log, of "
                f"{self._epochs} epochs; --scorer {self._used_scorer}:{MEAN} reads them all."
            )
        block |= self._count_unchecked()
        if "unverified" in block:
            published = [f"{value:.4f} ({r} {m})" for r, m, value in self._published_means()]
            remarks.append(
                f"{block['unverified']:,} scores are neither right nor wrong, so they are no check "
                f"of the answers; the log states {' and '.join(published) or 'no mean'}."
            )
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
        steps = self._plan.get("steps")
        if any(at(each, "params", "cot") for each in (steps if isinstance(steps, list) else ())):
            block["after_reasoning"] = True
            remarks.append("The model reasons first: each answer depends on what it has written.")
        model = self._eval.get("model")
        problems = tuple(self._contradictions())
        return LogFacts(block, model if isinstance(model, str) else None, tuple(remarks), problems)

    def _count_unchecked(self) -> dict[str, Json]:
        """Return how many samples of the dataset are read, and how many answers have no check."""
        by_id = self._by_id()
        read = sum(bool(self._whole(epochs)) for epochs in by_id.values())
        total, of = self._results.get("total_samples"), None
        counted_samples = at(self._eval, "dataset", "samples")
        if isinstance(counted_samples, int):
            # Some logs count every epoch there.
            every = self._epochs > 1 and counted_samples == total == len(self._samples)
            of = len(by_id) if every else counted_samples
        elif isinstance(total, int):
            of = math.ceil(total / self._epochs)
        planned = at(self._eval, "config", "epochs")
        if of is not None and isinstance(planned, int) and planned > self._epochs:
            # Stopped in an early epoch: count samples of every epoch.
            read, of = read * self._epochs, of * planned
        block: dict[str, Json] = {}
        if of is not None and read < of:
            block["incomplete"] = {"read": read, "of": of}
        if self._unverified:
            block["unverified"] = self._unverified
        return block

    def _contradictions(self) -> Iterator[Problem]:
        """Yield the means of the log that are not those of its scores."""
        scored = [[s.value for s in group if s.scored] for group in self._by_id().values()]
        for reducer, metric, logged in self._published_means():
            reduced = [reduce_epochs(reducer, values) for values in scored if values]
            numbers = [value for value in reduced if value is not None]
            if not numbers or len(numbers) < len(reduced):
                continue
            if abs(fmean(numbers) - logged) > _CLOSE:
                message = f"{metric} is {fmean(numbers):.6f}, that of the log {logged:.6f}"
                yield Problem(None, None, message)


def _read_choices(
    samples: Sequence[_Sample], form: Form | None, *, own_scorer: bool
) -> tuple[list[_Sample], list[Problem]]:
    """Return the samples in the only reading of targets and answers that fits all of them.

    Args:
        samples: as logged.
        form: what targets are, if the user says so.
        own_scorer: whether their scorer is `choice`, whose answers are letters.

    Returns:
        The samples, and the problems if no reading fits.

    Raises:
        ShapeError: two readings fit and differ.
    """
    forms = _FORMS
    readings: dict[tuple[Form, Form], tuple[list[_Sample], list[Problem]]] = {}
    answers: tuple[Form, ...] = (LETTER,) if own_scorer else forms
    for target, answer in product([form] if form else forms, answers):
        readings[target, answer] = _in_form(samples, target, answer)
    whole_texts = any(
        len(text) > 1 and text in sample.choices for sample in samples for text in sample.target
    )
    if whole_texts and any(
        target == TEXT and not problems for (target, _), (_, problems) in readings.items()
    ):
        readings = {names: read for names, read in readings.items() if names[0] == TEXT}
    fitting: dict[Form, list[_Sample]] = {}
    # Answers are in the form of targets, if both forms fit.
    for forms_read in sorted(readings, key=lambda names: names[0] != names[1]):
        read, problems = readings[forms_read]
        if not problems and all(sample.agrees() for sample in read):
            fitting.setdefault(forms_read[0], read)
    if not fitting:
        return min(readings.values(), key=lambda reading: len(reading[1]))
    first, *others = fitting.values()
    for one, other in zip(first, *others, strict=True) if others else ():
        if (one.references, one.answer) != (other.references, other.answer):
            raise _two_readings(one, other)
    return first, []


def _in_form(
    samples: Sequence[_Sample], target: Form, answer: Form
) -> tuple[list[_Sample], list[Problem]]:
    read, problems = [], []
    for sample in samples:
        try:
            read.append(sample.read(target, answer))
        except ValueError as error:
            problems.append(Problem(None, sample.name, str(error)))
    return read, problems


def _two_readings(letters: _Sample, texts: _Sample) -> ShapeError:
    """Return the error of targets that fit as letters and as texts; the first that differs."""
    of_letters, of_texts = (
        f"{sample.choices[sample.references[0]]!r:.40}" for sample in (letters, texts)
    )
    target = ", ".join(letters.target)
    message = (
        f"{letters.name}: target {target!r:.40} is a letter and the text of a choice, and both "
        f"readings fit every score: as a letter, {of_letters} is right; as a text, {of_texts}. "
        "Decide with --answers letter or --answers text"
    )
    return ShapeError(message)


def _answer(
    entry: Mapping[str, Any], score: Mapping[str, Any]
) -> tuple[str, str | None, str | None]:
    """Return what names the answer; without one, its status and the reason."""
    error = entry.get("error")
    if error:
        message = error.get("message") if isinstance(error, dict) else error
        return "", "failed", str(message)[:200]
    if not score:
        return "", "failed", "the sample has no score"
    answer = score.get("answer")
    if not isinstance(answer, str) or not answer.strip():
        reason = str(score.get("reason") or "no answer")
        return "", "missing" if reason == "no_response" else "failed", reason
    return answer, None, None


def _float(value: Any) -> float | None:
    """Return a score as Inspect counts it; None if it is an object or another text.

    Examples:
        >>> _float("C"), _float("P"), _float(0.25), _float({"acc": 1})
        (1.0, 0.5, 0.25, None)
    """
    if isinstance(value, str):
        return _VALUES.get(value, _VALUES.get(value.lower()) if len(value) > 1 else None)
    return float(value) if isinstance(value, int | float) else None


def _places(named: Sequence[str], choices: Sequence[str], form: Form) -> tuple[int, ...]:
    """Return the choices that letters or texts name: A is 0, and 1 follows Z.

    Raises:
        ValueError: a letter, or a text, names no choice, or a text names several.

    Examples:
        >>> _places(["B"], ["x", "y"], LETTER), _places(["A", "C"], ["B", "C", "A"], TEXT)
        ((1,), (2, 1))
    """
    stripped = [choice.strip() for choice in choices]
    places: list[int] = []
    for text in named:
        if form == LETTER:
            for token in text.replace(",", " ").split():
                places += map(_place, [token] if token.isdecimal() else [*token])
        elif stripped.count(text.strip()) == 1:
            places.append(stripped.index(text.strip()))
        else:
            places.append(-1)
    if not places or not all(0 <= place < len(choices) for place in places):
        value = [*named] if len(named) > 1 else named[0]
        raise ValueError(
            f"expected a letter of one of {len(choices)} choices, or the text of one, "
            f"got {value!r:.60}"
        )
    return tuple(dict.fromkeys(places))


def _place(letter: str) -> int:
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
        raise ValueError(f"epoch: expected an integer, got {describe(value)}")
    return value


def _order_shown(explanation: str, choices: Sequence[str]) -> tuple[int, ...] | None:
    r"""Return the choice at every letter if the solver has shuffled them; None if it has not.

    Raises:
        ValueError: the explanation says so, and not how.

    Examples:
        >>> explanation = "Choices were shuffled before generating a response, ...\nA) no\nB) yes\n"
        >>> _order_shown(explanation + "Shuffled answer:\nANSWER: A", ["yes", "no"])
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
            raise ValueError("the choices were shuffled, and the explanation does not say how")
        left.remove(fit[0])
        order.append(fit[0])
        text = text[len(start + choices[fit[0]]) + 1 :]
    return tuple(order)


def _letter_log_probs(entry: Mapping[str, Any], shown: Sequence[int]) -> _LetterLogProbs | None:
    """Return the log-probabilities of the letters; None if that of the answer is not known.

    Args:
        entry: a sample in full.
        shown: (C,) canonical index at every letter.

    Raises:
        ValueError: they are not log-probabilities.
    """
    if len(shown) > _LETTERS:
        return None
    letters = {_letter(place): at for place, at in enumerate(shown)}
    text, answer_token = "", None
    for token in _tokens_of_answer(entry):
        before, text = text, text + str(token.get("token"))
        # The last letter after the last "ANSWER:".
        if _ANSWER.search(before) and str(token.get("token")).strip() in letters:
            answer_token = token
    if answer_token is None:
        return None
    at_token = _listed_tokens(answer_token)
    mass = mass_of_log_probabilities([value for _, value in at_token])
    masses: dict[int, list[float]] = {}
    for text, value in at_token:
        if text.strip() in letters:  # "B" and " B" may both be listed, and "B" twice
            masses.setdefault(letters[text.strip()], []).append(value)
    answer = letters[str(answer_token["token"]).strip()]
    if answer not in masses:
        return None
    return _LetterLogProbs(
        tuple(log_sum(masses[at]) if at in masses else None for at in range(len(shown))),
        min(min(value for _, value in at_token), math.log(max(1.0 - mass, _LEAST_LEFT))),
        answer,
    )


def _listed_tokens(token: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return the tokens listed at a place with their log-probabilities, the generated one included.

    Different tokens may have one text. The generated one is listed already, unless it is less
    probable than all that are.
    """
    listed: list[tuple[str, float]] = []
    for alternative in map(as_dict, (*(token.get("top_logprobs") or ()), token)):
        value, text = alternative.get("logprob"), str(alternative.get("token"))
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        generated = alternative is token
        if not generated or text not in dict(listed) or value < min(v for _, v in listed) - _NEAR:
            listed.append((text, float(value)))
    return listed


def _tokens_of_answer(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = at(entry, "output", "choices", 0, "logprobs", "content")
    return [as_dict(token) for token in content] if isinstance(content, list) else []
