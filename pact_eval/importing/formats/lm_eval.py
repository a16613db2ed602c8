"""Source "lm-eval": the samples of a multiple-choice task of lm-evaluation-harness.

A folder of results has `samples_<task>_<date>.jsonl`, one line per item and filter, and next to it
`results_<date>.json`. A line has a log-likelihood of every choice, as text:

    {"doc_id": 0, "doc": {...}, "target": "2",
     "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": " Ben"}, ...},
     "filtered_resps": [["-3.25", "False"], ...], "filter": "none", "metrics": ["acc"],
     "doc_hash", "prompt_hash", "target_hash": ..., "acc": 1.0}

`acc` is that of the largest log-likelihood, the first of equal ones: it proves our reading of the
target, line by line. `acc_norm` divides by the number of characters of the choice, and
`acc_mutual_info` subtracts the log-likelihood without the prompt: `--metric` chooses one of them,
whose values are then the logits of the run.

A target is an index, a list of indices (several right answers), or the text of a choice; the metric
decides for a whole file which of them. If the prompts of a line differ and its continuations do not
(WinoGrande), its target is not the reference; then `acc` says it, if there are two choices.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pact_eval._files import decoded, read_json, read_lines
from pact_eval._json import Json, dumps, loads
from pact_eval.errors import InputError, Place, Problem
from pact_eval.importing.grouping import Grouping
from pact_eval.importing.row_reader import as_object
from pact_eval.importing.source import ImportOptions, Log, LogFacts, LogRow, Outcome, Source, Start

_SAMPLES: Final = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl")
_KEYS: Final = frozenset({"doc_id", "arguments", "filtered_resps"})
_INDICES: Final = re.compile(r"\d+|\[\d+(, \d+)*\]")
_NO_FILTER: Final = "none"
_ACC: Final = "acc"
_HASHES: Final = ("doc_hash", "prompt_hash", "target_hash")
_SHOWN_OF_HASH: Final = 16
_CLOSE: Final = 1e-9
_KEPT: Final = (
    *("model_name", "model_source", "chat_template_sha", "system_instruction_sha", "git_hash"),
    *("lm_eval_version", "transformers_version", "date"),
)


@dataclass(frozen=True)
class _Line:
    """One line of a file of samples.

    Attributes:
        number: 1-based line number.
        name: "doc <doc_id>", in messages.
        doc_id: its number in the task.
        doc_hash: hash of the document; empty if the log has none.
        filter: name of the filter.
        log_likelihoods: of every choice.
        scores: of every choice, of which the largest is the answer by the metric.
        choices: the text of every choice; empty if the choices are in the prompts.
        target: as logged.
        acc: the metric as logged; None if the task has no such metric.
        labels: what names family and domain, if not the source.
        hashes: the hashes of the line, joined.
    """

    number: int
    name: str
    doc_id: int
    doc_hash: str
    filter: str
    log_likelihoods: tuple[float, ...]
    scores: tuple[float, ...]
    choices: tuple[str, ...]
    target: str
    acc: float | None
    labels: Mapping[str, Json]
    hashes: str

    @property
    def predicted(self) -> int:
        """The choice of the largest score; the first of equal ones, as numpy's argmax."""
        return self.scores.index(max(self.scores))


@dataclass(frozen=True)
class _Metric:
    """The metric by which answers are read.

    Attributes:
        name: acc, acc_norm or acc_mutual_info.
        delimiter: what the task puts between a prompt and a choice; it is no part of the choice.
    """

    name: str
    delimiter: str

    def scores(
        self, log_likelihoods: Sequence[float], alone: Sequence[float], choices: Sequence[str]
    ) -> tuple[float, ...]:
        """Return the score of every choice.

        Args:
            log_likelihoods: of every choice after its prompt.
            alone: those without the prompt; empty if they were not asked for.
            choices: the continuations; empty if the choices are in the prompts.

        Raises:
            ValueError: the line lacks what the metric needs.
        """
        if self.name == "acc":
            return tuple(log_likelihoods)
        if self.name == "acc_mutual_info":
            if not alone:
                raise ValueError("acc_mutual_info: expected requests without the prompt, got none")
            return tuple(a - b for a, b in zip(log_likelihoods, alone, strict=True))
        before = self.delimiter if all(c.startswith(self.delimiter) for c in choices) else ""
        lengths = [len(choice) - len(before) for choice in choices]
        if not lengths or min(lengths) < 1:
            raise ValueError("acc_norm: the lengths of the choices are not known")
        return tuple(a / length for a, length in zip(log_likelihoods, lengths, strict=True))


class LmEval(Source):
    """Samples of lm-evaluation-harness: a file, or a folder of results."""

    title = "lm-evaluation-harness"
    reads = "`samples_*.jsonl`, or a folder of results"

    def recognises(self, start: Start) -> bool:
        """A file whose lines have the keys of samples, or a folder with such files."""
        return start.first >= _KEYS or (start.path.is_dir() and bool(_newest(start.path)))

    def open(self, path: Path, options: ImportOptions) -> Log:
        """Open a file of samples; of a folder, the newest file of every task.

        Raises:
            InputError: the folder has no such file.
        """
        files = _newest(path) if path.is_dir() else [path]
        if not files:
            message = f"{path}: expected samples_<task>_<date>.jsonl in the folder, found none"
            raise InputError(message)
        tasks = [_Task(file, options, folder=path.is_dir()) for file in files]
        rows = (row for task in tasks for row in task.rows())
        return Log(rows, tuple(files), lambda outcome: _facts(tasks, outcome))


SOURCE: Final = LmEval()
"""The entry of the registry."""


def _newest(folder: Path) -> list[Path]:
    """Return the newest file of samples of every task, by name."""
    newest: dict[str, Path] = {}
    for file in sorted(folder.glob("samples_*.jsonl")):
        named = _SAMPLES.fullmatch(file.name)
        if named and file.name >= newest.get(named["task"], file).name:
            newest[named["task"]] = file
    return [newest[task] for task in sorted(newest)]


class _Task:
    """The samples of one task."""

    def __init__(self, file: Path, options: ImportOptions, *, folder: bool) -> None:
        self.file = file
        named = _SAMPLES.fullmatch(file.name)
        self.name = named["task"] if named else file.stem
        self.date = named["date"] if named else None
        self.correct = 0
        self.items = 0
        self.unverified = False
        self.hash = hashlib.sha256()
        self.hashed = True
        self._options = options
        self._grouping = options.grouping
        self._several = folder
        self.results = self._results()
        self.metric = _Metric(options.metric or _ACC, _delimiter(self.results, self.name))
        self.filter = _NO_FILTER

    def rows(self) -> Iterator[LogRow | Problem]:
        """Read the file, then yield its rows: how targets are read depends on all lines."""
        lines: dict[str, list[_Line]] = {}
        broken = False
        for number, raw in read_lines(self.file):
            name = None
            try:
                entry = as_object(loads(decoded(raw, number)))
                name = f"doc {entry.get('doc_id')}"
                line = _line(number, name, entry, self._grouping, self.metric)
                self.hash.update(line.hashes.encode())
                self.hashed = self.hashed and bool(line.hashes)
                lines.setdefault(line.filter, []).append(line)
            except ValueError as error:
                broken = True
                yield self._problem(number, name, str(error))
        if broken or not lines:
            return
        try:
            self.filter = _chosen_filter(list(lines), self._options.filter)
            chosen = lines[self.filter]
            if self._options.metric and all(line.acc is None for line in chosen):
                message = f"--metric {self._options.metric}: the file has no such metric"
                raise ValueError(message)
        except ValueError as error:
            yield self._problem(None, None, str(error))
            return
        yield from self._of_lines(chosen)

    def _of_lines(self, lines: Sequence[_Line]) -> Iterator[LogRow | Problem]:
        reading = _target_reading(lines)
        seen: dict[str, int] = {}
        for line in lines:
            seen[line.doc_hash] = seen.get(line.doc_hash, 0) + 1
        for line in lines:
            right = reading(line)
            if isinstance(right, str):
                yield self._problem(line.number, line.name, right)
                continue
            self.items += 1
            self.correct += line.predicted in right
            self.unverified |= line.acc is None
            unique = line.doc_hash and seen[line.doc_hash] == 1
            key = line.doc_hash[:_SHOWN_OF_HASH] if unique else str(line.doc_id)
            row = self._row(line, key, right)
            where = self._where(line.number, line.name)
            yield LogRow(*((None, None, row, where) if where else (line.number, line.name, row)))

    def _where(self, number: int | None, name: str | None) -> str:
        """Return the place of a line if the log has several files."""
        return f"{Place(self.file.name, number, name)}: " if self._several else ""

    def _problem(self, number: int | None, name: str | None, message: str) -> Problem:
        where = self._where(number, name)
        return Problem(None, None, where + message) if where else Problem(number, name, message)

    def _row(self, line: _Line, key: str, right: tuple[int, ...]) -> dict[str, Json]:
        row: dict[str, Json] = {
            "id": f"{self.name}:{key}",
            "domain": self.name,
            "reference": right[0] if len(right) == 1 else [*right],
            "logits": [*line.scores],
            "correct": None if line.acc is None else line.acc == 1,
            **line.labels,
        }
        letters = [choice.strip() for choice in line.choices]
        if letters and all(len(letter) == 1 and letter.isalpha() for letter in letters):
            row["answer_mass"] = min(1.0, math.fsum(map(math.exp, line.log_likelihoods)))
        else:
            row["code_order"] = []  # whether the prompt shows the choices, and how, is not known
        return row

    def _results(self) -> dict[str, Any] | None:
        """Return the results next to the samples; None if they are not there."""
        path = self.file.with_name(f"results_{self.date}.json")
        if self.date is None or not path.exists():
            return None
        results = read_json(path)
        return results if isinstance(results, dict) else None


def _delimiter(results: Mapping[str, Any] | None, task: str) -> str:
    """Return what a task puts between prompt and choice; a space, unless its results differ."""
    config = _object(_object((results or {}).get("configs")).get(task))
    delimiter = config.get("target_delimiter")
    return delimiter if isinstance(delimiter, str) else " "


def _line(
    number: int, name: str, entry: dict[str, Json], grouping: Grouping, metric: _Metric
) -> _Line:
    """Read one line.

    Raises:
        ValueError: it is not a line of a multiple-choice task; the message says what it is.
    """
    doc_id = entry.get("doc_id")
    if not isinstance(doc_id, int) or isinstance(doc_id, bool):
        message = f"doc_id: expected an integer, got {dumps(doc_id)[:60]}"
        raise ValueError(message)
    contexts, continuations = _arguments(entry.get("arguments"))
    values = _log_likelihoods(entry.get("filtered_resps"), len(continuations))
    alone: tuple[float, ...] = ()
    if "acc_mutual_info" in _list(entry.get("metrics")) and len(values) % 2 == 0:
        # The second half is asked without the prompt; only `acc_mutual_info` uses it.
        half = len(values) // 2
        if all(context == "" for context in contexts[half:]):
            alone = values[half:]
            contexts, continuations, values = contexts[:half], continuations[:half], values[:half]
    in_prompts = len(set(continuations)) == 1 and len(set(contexts)) > 1
    acc = entry.get(metric.name)
    if acc is not None and acc not in (0, 1):
        message = f"{metric.name}: expected 0 or 1, got {dumps(acc)[:60]}"
        raise ValueError(message)
    choices = () if in_prompts else continuations
    # Without the metric, the file is refused as a whole.
    scores = values if acc is None else metric.scores(values, alone, choices)
    hashes = [entry.get(key) for key in _HASHES]
    return _Line(
        number=number,
        name=name,
        doc_id=doc_id,
        doc_hash=str(hashes[0] or ""),
        filter=str(entry.get("filter") or _NO_FILTER),
        log_likelihoods=values,
        scores=scores,
        choices=choices,
        target=str(entry.get("target")),
        acc=None if acc is None else float(acc),
        labels=grouping.of_entry(entry),
        hashes="".join(map(str, hashes)) if all(hashes) else "",
    )


def _arguments(value: Json) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return prompts and continuations of the requests of a line."""
    requests = list(value.values()) if isinstance(value, dict) else []
    pairs = [
        (request.get("arg_0"), request.get("arg_1"))
        for request in requests
        if isinstance(request, dict) and isinstance(request.get("arg_1"), str)
    ]
    if len(pairs) < max(2, len(requests)):
        message = (
            "expected the requests of a multiple-choice task (gen_args_0.arg_1, ...), got "
            "those of another type, such as generate_until; such a task has no fixed answers"
        )
        raise ValueError(message)
    return tuple(str(a) for a, _ in pairs), tuple(str(b) for _, b in pairs)


def _log_likelihoods(value: Json, choices: int) -> tuple[float, ...]:
    responses = value if isinstance(value, list) else []
    numbers = [pair[0] for pair in responses if isinstance(pair, list) and len(pair) == 2]
    if len(numbers) != choices or len(responses) != choices:
        message = (
            f"filtered_resps: expected {choices} pairs of log-likelihood and greediness, got "
            f"{dumps(value)[:60]}; generated texts have no probabilities of the answers"
        )
        raise ValueError(message)
    log_likelihoods = tuple(map(_log_likelihood, numbers))
    if not all(map(math.isfinite, log_likelihoods)):
        message = f"filtered_resps: expected finite log-likelihoods, got {dumps(numbers)[:60]}"
        raise ValueError(message)
    return log_likelihoods


def _log_likelihood(value: Json) -> float:
    """Return a number, which the tool writes as text; NaN if it is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


def _chosen_filter(names: Sequence[str], filter_name: str | None) -> str:
    """Return the filter that is read: the one asked for, "none", or the only one."""
    if filter_name is not None:
        if filter_name not in names:
            message = f"--filter {filter_name}: the file has {', '.join(names)}"
            raise ValueError(message)
        return filter_name
    if _NO_FILTER in names:
        return _NO_FILTER
    if len(names) > 1:
        message = f"several filters ({', '.join(names)}): choose one with --filter"
        raise ValueError(message)
    return names[0]


_Reading = Callable[[_Line], "tuple[int, ...] | str"]
"""Returns the right answers of a line, or what is wrong."""


def _target_reading(lines: Sequence[_Line]) -> _Reading:
    """Return how targets are read: the way that agrees with `acc` on every line.

    Where none does, the one that agrees on most lines: the other lines are then told.
    """
    if any(not line.choices for line in lines):
        return _by_outcome

    def disagreements(reading: _Reading) -> int:
        return sum(
            isinstance(right, str)
            or (line.acc is not None and (line.predicted in right) != (line.acc == 1))
            for line, right in zip(lines, map(reading, lines), strict=True)
        )

    return min((_as_index, _as_text), key=disagreements)


def _as_index(line: _Line) -> tuple[int, ...] | str:
    if _INDICES.fullmatch(line.target):
        right = tuple(sorted({int(digits) for digits in re.findall(r"\d+", line.target)}))
        if right[-1] < len(line.choices):
            return right
    return _wrong_target(line)


def _as_text(line: _Line) -> tuple[int, ...] | str:
    texts = [choice.strip() for choice in line.choices]
    target = line.target.strip()
    return (texts.index(target),) if target in texts else _wrong_target(line)


def _by_outcome(line: _Line) -> tuple[int, ...] | str:
    """Return the reference of a line whose choices are in its prompts."""
    if line.acc == 1:
        return (line.predicted,)
    if line.acc == 0 and len(line.log_likelihoods) == 2:
        return (1 - line.predicted,)
    return (
        "the choices are in the prompts, so target is not the reference; acc shows it only for "
        "answers that are right, or between two choices"
    )


def _wrong_target(line: _Line) -> str:
    texts = ", ".join(repr(choice.strip())[:20] for choice in line.choices[:8])
    return f"target: expected an index or one of {texts}; got {line.target!r:.60}"


def _facts(tasks: Sequence[_Task], _outcome: Outcome) -> LogFacts:
    """Return provenance; compare the hash and the accuracy of every task with its results."""
    problems: list[Problem] = []
    remarks: list[str] = []
    block: dict[str, Json] = {"tasks": [task.name for task in tasks]}
    model: str | None = None
    with_results = [(task, task.results) for task in tasks]
    chosen = tasks[0].metric.name
    if chosen != _ACC:
        block["metric"] = chosen
        remarks.append(f"Answers and probabilities are by {chosen}, not by the likelihood alone.")
    for task, results in with_results:
        if results is None:
            continue
        problems += _contradictions(task, results)
        model = model or _text(results.get("model_name"))
        block |= {name: results[name] for name in _KEPT if results.get(name) is not None}
        _add_task(block, task.name, results)
    without = [task.name for task, results in with_results if results is None]
    if without:
        remarks.append(f"No results_<date>.json next to {', '.join(without)}: no provenance.")
    unverified = [task.name for task in tasks if task.unverified]
    if unverified:
        remarks.append(f"No {chosen} in {', '.join(unverified)}: right and wrong are not verified.")
    return LogFacts(json.loads(json.dumps(block)), model, tuple(remarks), tuple(problems))


def _add_task(block: dict[str, Any], task: str, results: Mapping[str, Any]) -> None:
    """Add what the results say of one task, and of the model's configuration."""
    for name in ("n-shot", "versions", "task_hashes"):
        by_task = results.get(name)
        if isinstance(by_task, dict) and task in by_task:
            block.setdefault(name, {})[task] = by_task[task]
    config = results.get("config")
    if isinstance(config, dict):
        kept = ("model", "model_args", "model_sha", "model_revision", "model_dtype", "peft_sha")
        block["config"] = {name: config[name] for name in kept if config.get(name)}


def _contradictions(task: _Task, results: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield where the results do not fit the samples."""
    hashes = results.get("task_hashes")
    logged = hashes.get(task.name) if isinstance(hashes, dict) else None
    if isinstance(logged, str) and task.hashed and logged != task.hash.hexdigest():
        yield Problem(
            None,
            None,
            f"{task.name}: the samples are not those of results_{task.date}.json (task_hashes: "
            f"expected {logged[:12]}, got {task.hash.hexdigest()[:12]})",
        )
    accuracies = _object(_object(results.get("results")).get(task.name))
    names = (f"{task.metric.name},{task.filter}", task.metric.name)
    logged = next((v for k, v in accuracies.items() if k in names), None)
    if isinstance(logged, int | float) and task.items and not task.unverified:
        ours = task.correct / task.items
        if abs(ours - logged) > _CLOSE:
            what = "accuracy" if task.metric.name == _ACC else task.metric.name
            message = f"{task.name}: {what} is {ours:.6f}, that of the results {logged:.6f}"
            yield Problem(None, None, message)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None
