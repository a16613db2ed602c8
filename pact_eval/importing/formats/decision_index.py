"""Source "decision-index": results of the Decision Index, joined with the rows of its suite.

`results.jsonl` (or `.jsonl.gz`) has one line per request and try; the last of a `run_id` counts. It
has no references: they are in the rows of the suite (`--suite`), which the user has.

    {"run_id", "payload_sha256", "dataset", "group_id", "track", "engine",
     "status": "ok" | "unsupported" | "error" | "abstained", "error",
     "response": {"model", "answers": {key: {"type": "choice", "choice", "probabilities": {...}}
                                          | {"type": "noul", "noul": p}}}}

    {"questions": {key: {"type", "criteria"}}, "expected": {key: answer | null}, "scoring": {...},
     "_evaluation": {"run_id", "payload_sha256", "dataset", "group_id", "track"}}

Every question of a request is an item. Canonical order is that of `criteria`, or false, true. The
payload hash is computed from the suite row, and must be that of the result. Questions without one
right answer, and rows that the board excludes, are left out and counted. `choice` must be a most
probable answer, within rounding. Accuracies are compared with those of the board, if its files
are next to the results.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pact_eval._files import MOST_TEXT_BYTES, decoded, read_json, read_lines, reading
from pact_eval._json import Json, at, describe, loads
from pact_eval.errors import InputError, Place, Problem, ShapeError
from pact_eval.importing.row_reader import as_object
from pact_eval.importing.source import (
    ImportOptions,
    Log,
    LogFacts,
    LogRow,
    Source,
    Start,
    as_dict,
    read_large_json,
    unpacking,
)
from pact_eval.runs.predictions import rounding_unit

_EXCLUSIONS: Final = "excluded-questions.json"
_SUMMARY: Final = "benchmark-summary.json"
_SCORES: Final = "scores.json"
_ACCURACY: Final = "accuracy"
_CLOSE: Final = 1e-9
_ROUNDED: Final = 0.5e-4 + _CLOSE


def _logged_accuracies(results: Path) -> Iterator[tuple[str, str, float, float]]:
    """Yield file, benchmark, accuracy and tolerance of what the board says, the exact file first.

    Raises:
        InputError: a file is damaged.
    """
    summary, scores = results.with_name(_SUMMARY), results.with_name(_SCORES)
    if summary.exists():
        listed = read_large_json(summary).get("benchmarks")
        for benchmark in map(as_dict, listed if isinstance(listed, list) else []):
            logged = at(benchmark, "detail", "field_accuracy")
            if isinstance(logged, int | float):
                yield _SUMMARY, str(benchmark.get("catalog_id")), float(logged), _CLOSE
    elif scores.exists():
        for catalog, benchmark in as_dict(read_large_json(scores).get("benchmarks")).items():
            logged = at(benchmark, "score")
            if at(benchmark, "metric") == _ACCURACY and isinstance(logged, int | float):
                yield _SCORES, str(catalog), float(logged), _ROUNDED


_KEYS: Final = frozenset({"run_id", "payload_sha256", "status"})
_NAMES: Final = ("results.jsonl", "results.jsonl.gz")
_STATUSES: Final[Mapping[str, str]] = {
    "unsupported": "unsupported",
    "error": "failed",
    "abstained": "refused",
}
_SEVERAL_RIGHT: Final = frozenset(
    {"retrieval_ranking", "routing_outcome", "chess_reference_value", "human_group_rank"}
)
_MODEL_OF_HASH: Final = "jev-1.13.0"
_SUM_TOLERANCE: Final = 0.01
_ROUNDING: Final = 1e-6
_SUITES: Final = ("selected-rows.jsonl.gz", "added-rows.jsonl.gz")


class DecisionIndex(Source):
    """Results of the Decision Index: a file, or the folder that has it."""

    title = "Decision Index"
    reads = "`results.jsonl[.gz]` and the suite"

    def recognises(self, start: Start) -> bool:
        """A file whose lines have the keys of results, or a folder with such a file."""
        return start.first >= _KEYS or (start.path.is_dir() and _results(start.path) is not None)

    def open(self, path: Path, options: ImportOptions) -> Log:
        """Open results.

        Raises:
            InputError: the results cannot be read.
            ShapeError: no suite was given.
        """
        file = _results(path) if path.is_dir() else path
        if file is None:
            raise InputError(f"{path}: expected {' or '.join(_NAMES)} in the folder, found neither")
        if not options.suites:
            here = [file.with_name(name) for name in _SUITES]
            suites = [path for path in here if path.exists()] or [Path(name) for name in _SUITES]
            words = " ".join(f"--suite {shlex.quote(str(path))}" for path in suites)
            raise ShapeError(
                f"{file}: results of the Decision Index have no references: give the rows of the "
                f"suite with {words}"
            )
        joined = _Joined(file, options)
        files = (file, *options.suites)
        return Log(joined.rows(), files, joined.facts, _SUM_TOLERANCE, named=file)


SOURCE: Final = DecisionIndex()
"""The entry of the registry."""


def _results(folder: Path) -> Path | None:
    return next((folder / name for name in _NAMES if (folder / name).exists()), None)


class _Joined:
    """Results joined with suite rows."""

    def __init__(self, file: Path, options: ImportOptions) -> None:
        self._file = file
        self._suites = options.suites
        self._grouping = options.grouping
        self._left_out: Counter[str] = Counter()
        self._models: Counter[str] = Counter()
        self._engines: Counter[str] = Counter()
        self._repeated = 0
        # Questions by benchmark and group. The board counts groups that were answered whole.
        self._questions: Counter[tuple[str, str]] = Counter()
        self._right: Counter[tuple[str, str]] = Counter()
        self._incomplete: set[tuple[str, str]] = set()
        self._unread: set[str] = set()
        beside = sorted({suite.with_name(_EXCLUSIONS) for suite in options.suites})
        self._excluded = {
            run_id
            for path in beside
            if path.exists()
            for run_id in as_dict(read_large_json(path).get("rows"))
        }

    def rows(self) -> Iterator[LogRow | Problem]:
        """Yield a row per question, in the order of the suite."""
        results: dict[str, tuple[int, dict[str, Any]]] = {}
        for line, entry in _objects(self._file):
            if isinstance(entry, Problem):
                yield entry
                continue
            run_id = str(entry.get("run_id"))
            self._repeated += run_id in results
            results[run_id] = line, entry
            self._engines[str(entry.get("engine"))] += 1
            model = at(entry, "response", "model")
            self._models.update([] if model is None else [str(model)])
        for suite in self._suites:
            for line, entry in _objects(suite):
                if isinstance(entry, Problem):
                    yield Problem(None, None, f"{Place(suite.name, entry.line)}: {entry.message}")
                    continue
                scored_by = at(entry, "scoring", "type")
                if not isinstance(scored_by, str | None):
                    message = f"scoring.type: expected text, got {describe(scored_by)}"
                    yield Problem(None, None, f"{Place(suite.name, line)}: {message}")
                    continue
                yield from self._request(entry, results)
        for run_id, (line, _) in itertools.islice(results.items(), 20):
            yield Problem(line, run_id, "expected a row of the suite, found none")

    def _request(
        self, suite: dict[str, Any], results: dict[str, tuple[int, dict[str, Any]]]
    ) -> Iterator[LogRow | Problem]:
        """Yield a row per question of a row of the suite; its result, if any, is removed."""
        evaluation = as_dict(suite.get("_evaluation"))
        run_id = str(evaluation.get("run_id"))
        group = str(evaluation.get("catalog_id")), str(evaluation.get("group_id"))
        line, result = results.pop(run_id, (0, None))
        if run_id in self._excluded:
            if result is not None:
                self._left_out["that the board excludes"] += len(as_dict(suite.get("questions")))
            return
        if result is None:
            self._incomplete.add(group)
            return
        if _payload_sha256(suite) != str(result.get("payload_sha256")):
            message = "payload_sha256: the result is of another state or other questions"
            yield Problem(line, run_id, message)
            return
        if result.get("status") != "ok":
            self._incomplete.add(group)
        yield from self._answers(suite, line, result, group)

    def _answers(
        self, suite: dict[str, Any], line: int, result: dict[str, Any], group: tuple[str, str]
    ) -> Iterator[LogRow | Problem]:
        """Yield a row per question that has one right answer; count them for the board."""
        evaluation, scoring = as_dict(suite.get("_evaluation")), as_dict(suite.get("scoring"))
        expected, unscored = as_dict(suite.get("expected")), scoring.get("unscored_fields")
        without = unscored if isinstance(unscored, list) else []
        run_id = str(evaluation.get("run_id"))
        for key, question in as_dict(suite.get("questions")).items():
            name, why = f"{run_id}/{key}", ""
            if scoring.get("type") in _SEVERAL_RIGHT:
                why = f"scored by {scoring['type']}"
            elif expected.get(key) is None or key in without:
                why = "without a reference"
            if why:
                self._left_out[why] += 1
                self._unread.add(group[0])
                continue
            try:
                row = _row(name, key, as_dict(question), expected[key], result)
                if "answer" in row:
                    self._questions[group] += 1
                    self._right[group] += row["answer"] == row["reference"]
                elif result.get("status") == "ok":
                    self._unread.add(group[0])
                row |= {
                    "family": str(evaluation.get("group_id") or run_id),
                    "source_family": str(
                        evaluation.get("track") or evaluation.get("group_id") or run_id
                    ),
                    "domain": str(evaluation.get("dataset") or "unknown"),
                    **self._grouping.of_entry(suite),
                }
                yield LogRow(line, name, row)
            except ValueError as error:
                yield Problem(line, name, str(error))

    def facts(self) -> LogFacts:
        """Return provenance: engines, models, and what `environment.json` says."""
        block: dict[str, Json] = {"engines": dict(self._engines), "models": dict(self._models)}
        block["suites"] = [suite.name for suite in self._suites]
        block["repeated_lines"] = self._repeated
        block["left_out"] = dict(self._left_out)
        environment = self._file.with_name("environment.json")
        if environment.exists():
            block["environment"] = read_json(environment)
        remarks = [
            f"{count:,} questions {why} are left out." for why, count in self._left_out.items()
        ]
        if len(self._models) > 1:
            remarks.append(
                f"The answers are of {len(self._models)} models: {', '.join(self._models)}."
            )
        model = self._models.most_common(1)[0][0] if self._models else None
        questions: Counter[str] = Counter()
        right: Counter[str] = Counter()
        for group in self._questions.keys() - self._incomplete:
            questions[group[0]] += self._questions[group]
            right[group[0]] += self._right[group]
        problems, compared = [], 0
        for name, catalog, logged, tolerance in _logged_accuracies(self._file):
            if catalog in self._unread or not questions[catalog]:
                continue
            compared += 1
            ours = right[catalog] / questions[catalog]
            if abs(ours - logged) > tolerance:
                message = f"benchmark {catalog}: accuracy is {ours:.6f}, that of {name} {logged:g}"
                problems.append(Problem(None, None, message))
        block["benchmarks_compared"] = compared
        return LogFacts(block, model, tuple(remarks), tuple(problems))


def _row(
    name: str, key: str, question: Mapping[str, Any], expected: Any, result: Mapping[str, Any]
) -> dict[str, Json]:
    """Return the row of one question.

    Raises:
        ValueError: question, reference or answer are not of the format.
    """
    options = _options(question)
    reference = expected if isinstance(expected, str) else str(expected).lower()
    if reference not in options:
        raise ValueError(f"expected: {reference!r:.60} is not an option of question {key!r:.60}")
    row: dict[str, Json] = {
        "id": name,
        "kind": "boolean" if question.get("type") == "noul" else "choice",
        "reference": options.index(reference),
        "n_choices": len(options),
    }
    status = str(result.get("status"))
    if status != "ok":
        reason = str(result.get("error") or "")[:200] or status
        return row | {"status": _STATUSES.get(status, "failed"), "reason": reason}
    answer = at(result, "response", "answers", key)
    if not isinstance(answer, dict):
        return row | {"status": "missing", "reason": "the response has no answer to it"}
    probabilities = _probabilities(answer, options)
    chosen = answer.get("choice")
    if chosen is None:
        # `noul` of 0.5 counts as true.
        chosen_at = int(probabilities[1] >= probabilities[0])
    elif chosen in options:
        chosen_at = options.index(chosen)
    else:
        return row | {"status": "failed", "reason": f"choice is not an option: {chosen!r:.60}"}
    most = max(probabilities)
    if probabilities[chosen_at] < most - rounding_unit(probabilities) - _ROUNDING:
        return row | {"status": "failed", "reason": "choice is not the most probable answer"}
    return row | {"probabilities": [*probabilities], "answer": chosen_at}


def _options(question: Mapping[str, Any]) -> list[str]:
    if question.get("type") == "noul":
        return ["false", "true"]
    criteria = question.get("criteria")
    if not isinstance(criteria, dict) or len(criteria) < 2:
        raise ValueError("criteria: expected two or more options")
    return [*criteria]


def _probabilities(answer: Mapping[str, Any], options: list[str]) -> list[float]:
    given = as_dict(answer.get("probabilities"))
    if "noul" not in answer and set(given) != set(options):
        expected = f"one for each of {len(options)} options"
        raise ValueError(f"probabilities: expected {expected}, got {len(given)}")
    values = [answer["noul"]] if "noul" in answer else [given[option] for option in options]
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise ValueError(f"expected a probability from 0 to 1, got {value!r:.60}")
    p = [float(value) for value in values]
    return [1.0 - p[0], p[0]] if "noul" in answer else p


def _payload_sha256(suite: Mapping[str, Any]) -> str:
    payload = {
        "model": _MODEL_OF_HASH,
        "state": suite.get("state"),
        "questions": suite.get("questions"),
    }
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any] | Problem]]:
    """Yield the objects of a file of JSON lines, packed or not, with their line numbers."""
    for number, raw in _lines(path):
        try:
            yield number, as_object(loads(decoded(raw, number)))
        except ValueError as error:
            yield number, Problem(number, None, str(error))


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    if path.suffix != ".gz":
        yield from read_lines(path)
        return
    with reading(path), unpacking(path), gzip.open(path) as file:
        for number in itertools.count(1):
            line = file.readline(MOST_TEXT_BYTES + 1)
            if not line:
                return
            if len(line) > MOST_TEXT_BYTES:
                raise InputError(f"{path}:{number}: expected a line of at most 64 MiB, got more")
            if line.strip():
                yield number, line
