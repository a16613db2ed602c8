"""Source "lm-eval": the samples of multiple-choice tasks of lm-evaluation-harness.

A folder of results has `samples_<task>_<date>.jsonl`, one line per item and filter, and next to it
`results_<date>.json`. `harness.py` finds the files of one run, and reads the lines with their
checks and what the results publish.

A target is an index, a list of indices (several right answers), or the text of a choice. The
reading that fits every line and every check of a file is used. If two fit and differ, `--answers`
or `--positions-from` decides. If the prompts of a line differ and its continuations do not
(WinoGrande), its target is not the reference; then the metrics say it.

`--metric` chooses the values that are the logits of the run: without it, the first of `acc`,
`acc_norm`, `acc_bytes` and `acc_mutual_info` that the log has.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, Final

from pact_eval._choices import LogMetric
from pact_eval._files import decoded, open_regular, read_lines, reading
from pact_eval._json import Json, loads
from pact_eval.data.labelled.answers import FORMS, POSITIONS, TEXT, Form
from pact_eval.errors import Place, Problem, ShapeError, counted
from pact_eval.importing.harness import (
    BY_LENGTH,
    METRICS,
    NO_FILTER,
    READINGS,
    Checks,
    HarnessRun,
    Line,
    OtherTaskError,
    Reading,
    asked_of,
    by_outcome,
    contradictions,
    delimiters_of,
    documents_of,
    import_command,
    is_results,
    is_samples,
    provenance_of,
    read_line,
    run_at,
    runs_in,
    sample_hash,
    wrong_target,
)
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
)

_KEYS: Final = frozenset({"doc_id", "arguments", "filtered_resps"})
_SHOWN_OF_HASH: Final = 16
_START: Final = 64


class LmEval(Source):
    """Samples of lm-evaluation-harness: a file, or the folder of a run."""

    title = "lm-evaluation-harness"
    reads = "`samples_*.jsonl`, `results_*.json`, or the folder of `--output_path`"

    def recognises(self, start: Start) -> bool:
        """A file of samples or results, or a folder that has some, up to two levels deeper."""
        if start.path.is_dir():
            return bool(runs_in(start.path))
        return (
            start.first >= _KEYS
            or is_samples(start.content)
            or is_results(start.path, start.content)
        )

    def open(self, path: Path, options: ImportOptions) -> Log:
        """Open the samples of one run, a file per task.

        Raises:
            InputError: there are no samples, or those of several runs.
        """
        run = run_at(path, options)
        several = not run.given
        tasks = [_Task(file, run, options, path, several=several) for file in run.samples]
        return Log(_rows(tasks), run.samples, lambda: _facts(run, tasks))


SOURCE: Final = LmEval()
"""The entry of the registry."""


def _rows(tasks: Sequence[_Task]) -> Iterator[LogRow | Problem]:
    for task in tasks:
        yield from task.rows()
    if all(task.skipped for task in tasks):
        named = "; ".join(f"{task.name}: {task.skipped}" for task in tasks)
        message = f"expected a multiple-choice task that is scored as right or wrong; {named}"
        yield Problem(None, None, message)


class _Task:
    """The samples of one task.

    Attributes:
        name: its name.
        skipped: why it is not read, though other tasks of the run are; empty if it is.
        metric: by which its answers are read.
        filter: the filter that is read.
        delimiter: what is between a prompt and a choice.
        assumed: whether nothing says what the delimiter is, so that it is that of most tasks.
        checked: the lines of the filter, with what they say of their right answers.
        scored: the lines that are read, with their right answers.
        all_lines: those of every filter.
    """

    def __init__(
        self, file: Path, run: HarnessRun, options: ImportOptions, path: Path, *, several: bool
    ) -> None:
        self.file = file
        self.name = run.task_of(file)
        self.results = run.results
        self.skipped = ""
        self.metric: LogMetric = options.metric or "acc"
        self.filter = NO_FILTER
        self.delimiter = ""
        self.assumed = False
        self.scored: list[tuple[Line, tuple[int, ...]]] = []
        self.checked: Sequence[tuple[Line, Checks]] = ()
        self.all_lines: list[Line] = []
        self._options = options
        self._path = path
        self._several = several

    @property
    def unverified(self) -> int:
        """Number of lines without any check of their right answer."""
        return sum(not checks for _, checks in self.checked)

    def rows(self) -> Iterator[LogRow | Problem]:
        """Read the file, then yield its rows: how targets are read depends on all lines."""
        faults = [*self._read()]
        if not faults and not self.skipped:
            try:
                lines = self._chosen_lines()
                reading = self._choose_reading(lines)
                faults = [*self._score(reading)]
            except ShapeError:
                raise
            except OtherTaskError as error:
                self.skipped = str(error)
            except ValueError as error:
                faults = [Problem(None, None, str(error))]
        if faults or self.skipped:
            yield from self._problems(faults)
        else:
            yield from self._rows()

    def _read(self) -> Iterator[Problem]:
        """Read all lines, and yield what is wrong with some; a task of another type is skipped."""
        others: list[Problem] = []
        is_faulty = False
        listed = len(delimiters_of(self.results, self.name)) > 1
        for number, content in _entries(self.file):
            name = None
            try:
                entry = as_object(content if number is None else loads(decoded(content, number)))
                name = f"doc {entry.get('doc_id')}"
                line = read_line(number, entry, self._options.grouping, listed=listed)
                self.all_lines.append(line)
            except OtherTaskError as error:
                others.append(Problem(number, name, str(error)))
            except ValueError as error:
                is_faulty = True
                yield Problem(number, name, str(error))
        if not self.all_lines and not is_faulty:
            self.skipped = others[0].message if others else "the file is empty"
        else:
            yield from others

    def _chosen_lines(self) -> list[Line]:
        """Return the lines of the filter that is read, and choose the metric.

        Raises:
            OtherTaskError: the metric is not right or wrong.
            ValueError: a filter or a metric is missing, or the log-likelihoods say nothing.
        """
        filters = list(dict.fromkeys(line.filter for line in self.all_lines))
        self.filter = _chosen_filter(filters, self._options.filter)
        lines = [line for line in self.all_lines if line.filter == self.filter]
        logged = [
            metric
            for metric in METRICS
            if any(line.values.get(metric) is not None for line in lines)
        ]
        if self._options.metric is None and logged:
            self.metric = logged[0]
        elif self._options.metric not in (None, *logged):
            listed = ", ".join(logged) or "none of acc, acc_norm, acc_bytes, acc_mutual_info"
            raise ValueError(
                f"--metric {self.metric}: the file has no such metric; it has {listed}"
            )
        if all(len(set(line.log_likelihoods)) == 1 for line in lines):
            raise ValueError(
                "every line has equal log-likelihoods for all choices: the log has no answers"
            )
        return lines

    def _choose_reading(self, lines: Sequence[Line]) -> Reading:
        """Return the only reading of targets that fits every line and every check.

        Where none does, the one that fits most lines: the other lines are then told.

        Raises:
            ShapeError: two fit, and differ.
        """
        if any(not line.continuations for line in lines):
            self.checked = [(line, Checks.of(line, "")) for line in lines]
            return by_outcome
        delimiters = {
            delimiter: [(line, Checks.of(line, delimiter)) for line in lines]
            for delimiter in self._delimiters(lines)
        }
        self.delimiter, self.checked = next(iter(delimiters.items()))
        rounds: tuple[tuple[Form, ...], ...] = ((POSITIONS[0], TEXT), (POSITIONS[1],))
        stated = self._options.reading.form
        if stated in READINGS:  # of several tasks, one may have other targets, as its checks prove
            rounds = ((str(stated),), *(rounds if self._several else ()))
        elif not any(checks for _, checks in self.checked):
            rounds = ((POSITIONS[0], TEXT, POSITIONS[1]),)
        for names, (delimiter, checked) in product(rounds, delimiters.items()):
            if fitting := [name for name in names if _fits(READINGS[name], checked)]:
                self._refuse_two(lines, fitting)
                self.delimiter, self.checked = delimiter, checked
                others = (other for other in delimiters.values() if other is not checked)
                self.assumed = self.metric in BY_LENGTH and any(
                    _fits(READINGS[fitting[0]], other) for other in others
                )
                return READINGS[fitting[0]]
        readings = [READINGS[name] for name in rounds[0]]
        return max(readings, key=lambda reading: sum(_agrees(reading, *c) for c in self.checked))

    def _delimiters(self, lines: Sequence[Line]) -> list[str]:
        """Return what can be between prompts and choices, the most likely first."""
        candidates = delimiters_of(self.results, self.name)
        if len(candidates) > 1:
            before = {
                text.removesuffix(choice)
                for line in lines
                for text, choice in zip(line.continuations, line.listed, strict=False)
            }
            candidates = tuple(before) if len(before) == 1 else candidates
        possible = [
            delimiter
            for delimiter in candidates
            if all(text.startswith(delimiter) for line in lines for text in line.continuations)
        ]
        by_length = any(metric in line.values for line in lines for metric in BY_LENGTH)
        return possible[: None if by_length else 1] or [""]

    def _refuse_two(self, lines: Sequence[Line], names: Sequence[Form]) -> None:
        """Refuse readings that all fit, and differ.

        Raises:
            ShapeError: two of them give a line different right answers.
        """
        for line in lines:
            names_of = {READINGS[name](line): name for name in reversed(names)}
            if len(names_of) < 2:
                continue
            choices = [text.strip() for text in line.continuations]
            message = (
                f"targets can be read in {len(names_of)} ways, which fit every line and metric. "
                f"{Place(self.file.name, line.number, line.name)}: target {line.target!r}, "
                f"choices {', '.join(map(repr, choices))}"
            )
            for right, name in reversed(names_of.items()):
                texts = " or ".join(repr(choices[at]) for at in right or ())
                command = import_command(self._path, self.name, self._options, *FORMS[name].split())
                message += f"\n  {name}: the answer is {texts}\n    {command}"
            raise ShapeError(message)

    def _score(self, reading: Reading) -> Iterator[Problem]:
        """Keep the right answers of the lines, and yield what contradicts them.

        Raises:
            OtherTaskError: the metric is not right or wrong.
        """
        for line, checks in self.checked:
            try:
                line.outcome(self.metric)
                if (right := reading(line)) is None:
                    raise ValueError(wrong_target(line))
                if line.scores(self.metric, self.delimiter) is None:
                    raise ValueError(
                        f"{self.metric}: the line lacks the requests or lengths that it needs"
                    )
                if contradiction := checks.contradiction(right):
                    raise ValueError(contradiction)
                self.scored.append((line, right))
            except OtherTaskError:
                raise
            except ValueError as error:
                yield Problem(line.number, line.name, str(error))

    def _rows(self) -> Iterator[LogRow]:
        seen = Counter(line.doc_hash for line, _ in self.scored)
        letters = all(line.letters for line, _ in self.scored)
        for line, right in self.scored:
            unique = line.doc_hash and seen[line.doc_hash] == 1
            key = line.doc_hash[:_SHOWN_OF_HASH] if unique else str(line.doc_id)
            row = self._row(line, right, f"{self.name}:{key}", letters=letters)
            where = self._where(line.number, line.name)
            yield LogRow(*((None, None, row, where) if where else (line.number, line.name, row)))

    def _row(
        self, line: Line, right: tuple[int, ...], record_id: str, *, letters: bool
    ) -> dict[str, Json]:
        scores = line.scores(self.metric, self.delimiter) or ()
        correct = line.outcome(self.metric)
        if correct is None and line.stated is not None:
            correct = line.answer(self.metric, self.delimiter) in line.stated
        row: dict[str, Json] = {
            "id": record_id,
            "domain": self.name,
            "reference": right[0] if len(right) == 1 else [*right],
            "logits": [*scores],
            "correct": correct,
        }
        if line.doc_hash:  # documents that occur several times are one family
            row["family"] = f"{self.name}:{line.doc_hash[:_SHOWN_OF_HASH]}"
        if letters:
            row["answer_mass"] = min(1.0, math.fsum(map(math.exp, line.log_likelihoods)))
        else:
            row["code_order"] = []  # whether the prompt shows the choices, and how, is not known
        return row | dict(line.labels)

    @property
    def documents(self) -> int:
        """Number of documents that the task has, as far as results and lines say."""
        logged = documents_of(self.results, self.name) or (0, 0)
        return max(logged[0], len(self.scored), *(line.doc_id + 1 for line, _ in self.scored))

    @property
    def prompts_sha256(self) -> str | None:
        """Hash of all prompts, in the order of the documents; None if one is not known."""
        prompts = [line.prompt_hash for line, _ in sorted(self.scored, key=lambda p: p[0].doc_id)]
        return sha256("".join(prompts).encode()).hexdigest() if all(prompts) else None

    def contradictions(self) -> Iterator[str]:
        """Yield where the results do not fit the lines."""
        if self.results is None:
            return
        logged = as_dict(self.results.get("task_hashes")).get(self.name)
        ours = sample_hash(self.all_lines)
        if isinstance(logged, str) and ours not in (None, logged):
            yield (
                f"the samples are not those of the results (task_hashes: expected {logged[:12]}, "
                f"got {str(ours)[:12]})"
            )
        asked = asked_of(self.results, self.name)
        if asked is not None and len(self.scored) > asked:
            yield f"{len(self.scored)} lines, but the results are of {asked} documents"
        yield from contradictions(self.results, self.name, self.filter, self.scored, self.delimiter)

    def _where(self, number: int | None, name: str | None) -> str:
        """Return the place of a line if the run has several files."""
        return f"{Place(self.file.name, number, name)}: " if self._several else ""

    def _problems(self, faults: Sequence[Problem]) -> Iterator[Problem]:
        """Yield every fault as a problem with its place."""
        for fault in faults:
            where = self._where(fault.line, fault.record_id)
            yield Problem(None, None, where + fault.message) if where else fault


def _entries(file: Path) -> Iterator[tuple[int | None, Any]]:
    """Yield line numbers and lines; without numbers, the entries of a JSON array."""
    with reading(file), open_regular(file) as opened:
        is_array = opened.read(_START).lstrip().startswith(b"[")
    if is_array:
        yield from ((None, entry) for entry in read_large_json(file, list))
    else:
        yield from read_lines(file)


def _chosen_filter(names: Sequence[str], filter_name: str | None) -> str:
    """Return the filter that is read: the one asked for, "none", or the only one."""
    if filter_name is not None:
        if filter_name not in names:
            raise ValueError(f"--filter {filter_name}: the file has {', '.join(names)}")
        return filter_name
    if NO_FILTER in names:
        return NO_FILTER
    if len(names) > 1:
        raise ValueError(f"several filters ({', '.join(names)}): choose one with --filter")
    return names[0]


def _agrees(reading: Reading, line: Line, checks: Checks) -> bool:
    right = reading(line)
    return right is not None and checks.contradiction(right) is None


def _fits(reading: Reading, checked: Sequence[tuple[Line, Checks]]) -> bool:
    """Return whether a reading fits all lines and their checks."""
    return all(_agrees(reading, line, checks) for line, checks in checked)


def _facts(run: HarnessRun, tasks: Sequence[_Task]) -> LogFacts:
    """Return provenance; compare every task with what the results say of it."""
    read = [task for task in tasks if not task.skipped]
    results = run.results
    block: dict[str, Json] = {"tasks": [task.name for task in read]}
    if results is not None:
        block |= provenance_of(results, [task.name for task in read])
    prompts = {task.name: task.prompts_sha256 for task in read}
    if known := {name: sha256 for name, sha256 in prompts.items() if sha256 is not None}:
        block["prompts"] = {**known}
    others = {task.metric for task in read} - {"acc"}
    if others:
        block["metric"] = {task.name: task.metric for task in read}
    if unverified := sum(task.unverified for task in read):
        block["unverified"] = unverified
    documents = sum(task.documents for task in read) + sum(_absent(run, tasks).values())
    lines = sum(len(task.scored) for task in read)
    if lines < documents:
        block["incomplete"] = {"read": lines, "of": documents}
    problems = [
        Problem(None, None, f"{task.name}: {message}")
        for task in read
        for message in task.contradictions()
    ]
    model = (results or {}).get("model_name")
    return LogFacts(
        block,
        model if isinstance(model, str) and model else None,
        tuple(_remarks(run, tasks, block)),
        tuple(problems),
    )


def _absent(run: HarnessRun, tasks: Sequence[_Task]) -> dict[str, int]:
    """Return the tasks of a run that have no file, with their numbers of documents."""
    if len(tasks) == 1 and run.given:
        return {}
    named = as_dict((run.results or {}).get("n-samples"))
    counts = {name: documents_of(run.results, name) for name in named}
    read = {task.name for task in tasks}
    return {name: count[0] for name, count in counts.items() if count and name not in read}


def _remarks(run: HarnessRun, tasks: Sequence[_Task], block: Mapping[str, Json]) -> Iterator[str]:
    """Yield what a user should know of the log."""
    read = [task for task in tasks if not task.skipped]
    for metric in dict.fromkeys(task.metric for task in read if task.metric != "acc"):
        named = ", ".join(task.name for task in read if task.metric == metric)
        yield f"Answers and probabilities of {named} are by {metric}, not by the likelihood alone."
    for task in tasks:
        if task.skipped:
            yield f"{task.name} is not read: {task.skipped}."
    if absent := _absent(run, tasks):
        yield f"No samples of {', '.join(absent)}, though the results have them."
    if incomplete := as_dict(block.get("incomplete")):
        yield f"Incomplete: {incomplete['read']:,} of {incomplete['of']:,} documents are read."
    if run.results is None:
        yield "No results_<date>.json next to the samples: no provenance."
    if unverified := [task.name for task in read if task.unverified]:
        rows = counted(sum(task.unverified for task in read), "row")
        yield (f"No metric in {rows} of {', '.join(unverified)}: right and wrong are not verified.")
    if assumed := [task.name for task in read if task.assumed]:
        yield (
            f"{', '.join(assumed)}: lengths are taken without the space before a choice, as in "
            "most tasks; results_<date>.json would say so."
        )
