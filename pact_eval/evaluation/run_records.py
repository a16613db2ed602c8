"""The dataset behind the items of runs: its files, its audit, questions, contexts and answers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final

from pact_eval._files import sha256_of_file
from pact_eval._json import Json, dumps, loads
from pact_eval.audit.context import DataAuditSettings, DatasetSource
from pact_eval.audit.dataset import DATA_CHECKS, DataAudit, audit_data
from pact_eval.data.files import MANIFEST_NAME, DataFile, dataset_files, read_manifest
from pact_eval.data.labelled.answers import FORMS
from pact_eval.data.labelled.reader import read_dataset_records
from pact_eval.data.labelled.reading import AUTOMATIC, ROLES, Reading, reading_of_json
from pact_eval.data.records import LETTERS, Answer, Record, content_of, context_text, position_name
from pact_eval.errors import InputError, RecordError, counted
from pact_eval.evaluation.conclusions.conclusion import Unchecked
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.experiment_run import ExperimentRun, item_facts
from pact_eval.evaluation.joins import some_of
from pact_eval.evaluation.settings import Settings
from pact_eval.importing.table_rows import records_of_table
from pact_eval.runs.folder import read_any_run
from pact_eval.runs.identity import QUESTION, question_texts
from pact_eval.runs.predictions import Predictions
from pact_eval.runs.provenance import UNNAMED

MOST_AUDITED: Final = 20_000
"""So many records are audited with a report, which takes seconds; more need an own audit."""

_NO_DATA: Final = "give the questions (--data) to look for copies and leaks"
_SLOW: Final = Unchecked("shortcuts", "looked for by report --data FILE")
"""The check that takes most of the time of an audit: nobody asked for one."""


def scored_hash(run: ExperimentRun) -> str | None:
    """Return the hash of the dataset that a run scored; None for imports, which lack it."""
    recorded = run.provenance
    return recorded.data.sha256 if recorded.source in (None, "score") else None


def data_hash(run: ExperimentRun) -> str | None:
    """Return the hash of the dataset that a run scored, or has its references from."""
    sha256 = _references(run).get("sha256")
    return scored_hash(run) or (sha256 if isinstance(sha256, str) else None)


def data_reading(run: ExperimentRun) -> Reading:
    """Return how the dataset of a run was read, if it is a labelled file."""
    return reading_of_json(_labelled_setting(run))


def _labelled_setting(run: ExperimentRun) -> Json:
    return run.run.settings.get("labelled", _references(run).get("labelled"))


def _references(run: ExperimentRun) -> Mapping[str, Json]:
    """Return what `run.json` says of the references of an import; empty without any."""
    value = run.run.settings.get("references")
    return value if isinstance(value, dict) else {}


def remembered_data(runs: Sequence[ExperimentRun]) -> tuple[tuple[Path, ...], str]:
    """Return the datasets that runs remember, which are used unless the user gives others.

    They are those that `run.json` names, of runs that were scored on them or joined with them.

    Returns:
        The files, each once; none unless those of all runs are there, unchanged. And why there are
        none.
    """
    files: list[Path] = []
    for run in runs:
        recorded, sha256 = run.provenance, data_hash(run)
        named = recorded.data_file if scored_hash(run) else recorded.references_file
        if named is None or sha256 is None:
            return (), _NO_DATA
        places = [Path(named)]
        if recorded.data_from_run is not None:
            places.append(Path(os.path.normpath(run.folder.resolve() / recorded.data_from_run)))
        hashes = {_hash_at(place): place for place in reversed(places)}  # as given, if it is
        if sha256 not in hashes:
            change = "is not there" if hashes.keys() == {None} else "was changed since"
            return (), f"{named} {change}: {_NO_DATA}"
        reading = data_reading(run)
        # Of right answers only, ids stand for the contexts.
        if reading.bare and reading.columns.get("state") == reading.columns.get("id", ()):
            return (), f"{named} has no contexts: {_NO_DATA}"
        files.append(hashes[sha256])
    return tuple(dict.fromkeys(files)), _NO_DATA


def _hash_at(place: Path) -> str | None:
    """Return the hash of a file; None if there is none that can be read."""
    try:
        return sha256_of_file(place) if place.is_file() else None
    except (OSError, InputError):
        return None


def conclude_on_data(runs: Sequence[ExperimentRun], settings: Settings) -> DataConclusion:
    """Conclude on the data of runs, without the accuracies of a leak.

    What an adapter was trained on is as its run recorded it. The datasets of the settings are
    audited; without any, those that the runs remember.

    Args:
        runs: runs on full contexts.
        settings: name the datasets, or an audit of them.

    Raises:
        InputError: a file is missing, or is not an audit.
    """
    hashes = [data_hash(run) for run in runs]
    if settings.audit is not None:
        scored = [scored_hash(run) for run in runs]
        conclusion = DataConclusion.read(settings.audit, scored)
    elif settings.data:
        conclusion = _audit_files(settings.data, hashes, _common_reading(runs))
    else:
        conclusion = _audit_remembered(runs, hashes)
    conclusion = conclusion.with_custody([run.provenance.custody for run in runs])
    if conclusion.leak is None:
        return conclusion
    views = [read_any_run(run.run).predictions for run in runs]
    ids = [item for predictions in views for item in predictions.ids.tolist()]
    families = [family for predictions in views for family in predictions.family.tolist()]
    return conclusion.of_items(dict(zip(ids, families, strict=True)))


def _audit_remembered(
    runs: Sequence[ExperimentRun], hashes: Sequence[str | None]
) -> DataConclusion:
    """Audit the datasets that runs remember, but for what takes seconds; say why they cannot be."""
    files, lacking = remembered_data(runs)
    if not files:
        return DataConclusion.without_audit(lacking)
    quick = tuple(name for name in DATA_CHECKS if name != _SLOW.name)
    try:
        conclusion = _audit_files(files, hashes, _common_reading(runs), quick)
        return replace(conclusion, unchecked=(*conclusion.unchecked, _SLOW))
    except InputError as error:  # what nobody asked for does not end a report
        return DataConclusion.without_audit(f"{str(error).splitlines()[0]}; {_NO_DATA}")


def _common_reading(runs: Sequence[ExperimentRun]) -> str:
    """Return the reading that all runs recorded, as JSON; null if they differ, or have none."""
    readings = {dumps(_labelled_setting(run)) for run in runs}
    return readings.pop() if len(readings) == 1 else "null"


def _audit_files(
    paths: Sequence[Path],
    hashes: Sequence[str | None],
    reading: str,
    only: tuple[str, ...] | None = None,
) -> DataConclusion:
    files = DatasetSource.of_paths(paths).files
    if sum(map(count_lines, {file.path for file in files})) > MOST_AUDITED:
        reason = (
            f"more than {MOST_AUDITED:,} records: name an audit's JSON, audit = FILE below "
            "[options.report] in pact.toml"
        )
        return DataConclusion.without_audit(reason)
    contents = tuple(sha256_of_file(file.path) for file in files)
    return DataConclusion.of_audit(_audit(tuple(paths), contents, reading, only), hashes)


@lru_cache(maxsize=4)
def _audit(
    paths: tuple[Path, ...],
    contents: tuple[str, ...],
    reading: str,
    only: tuple[str, ...] | None,
) -> DataAudit:
    """Audit datasets; once for all runs on them, as long as their files have these hashes."""
    del contents
    source = replace(DatasetSource.of_paths(paths), reading=reading_of_json(loads(reading)))
    return audit_data(source, DataAuditSettings(only=only))


def count_lines(path: Path) -> int:
    """Return the number of line feeds in a file."""
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


_LONGEST_TEXT: Final = 200
_OF_KIND: Final[Mapping[str, tuple[str, ...]]] = {"boolean": ("false", "true")}


@dataclass(frozen=True)
class ItemTexts:
    """Texts of the items of a run and of their answers, as far as they are known.

    Attributes:
        records: by id, the records that are known.
        options: the answers of every item in canonical order, if an import says that all items have
            the same; empty otherwise.
        questions: by id, the names of the questions of a log of several.
        options_of: by question, its answers in canonical order.
    """

    records: Mapping[str, Record] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    questions: Mapping[str, str] = field(default_factory=dict)
    options_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def text(self, item: str) -> str | None:
        """Return the question of an item or its context, whichever differs more between items.

        White space becomes single blanks, and what is longer than 200 characters is cut. None if
        it is not known, or if all items have the same question and context.
        """
        record, (questions, contexts) = self.records.get(item), self._distinct
        if record is None or max(questions, contexts) == 1 < len(self.records):
            return None
        chosen: Json = record.field.instructions if questions >= contexts else record.state
        if not isinstance(chosen, str):
            chosen = context_text(chosen) or dumps(chosen)
        return cut(" ".join(chosen.split()), _LONGEST_TEXT)

    @cached_property
    def _distinct(self) -> tuple[int, int]:
        """Numbers of different questions and contexts."""
        records = self.records.values()
        questions = {content_of(record.field.instructions) for record in records}
        return len(questions), len({content_of(record.state) for record in records})

    def knows(self, item: str, kind: str) -> bool:
        """Return whether the names of the answers of an item are known, not only letters."""
        named = item in self.records or self.questions.get(item) in self.options_of
        return kind != "choice" or bool(self.options) or named

    def answers(self, item: str, kind: str, n_choices: int) -> tuple[str, ...]:
        """Return the names of the answers of an item, in canonical order.

        Without its record and options of the import, those of a boolean are "false" and "true",
        those of a score its levels, and those of a choice the letters of view 0.

        Example:
            >>> ItemTexts().answers("a", "choice", 3), ItemTexts().answers("a", "score", 2)
            (('A', 'B', 'C'), ('0', '1'))
        """
        record = self.records.get(item)
        if record is not None and len(record.field.answers) == n_choices:
            return answer_names(record.field.answers)
        options = self.options_of.get(self.questions.get(item, ""), self.options)
        if len(options) == n_choices:
            return options
        if kind == "score":
            return tuple(map(str, range(n_choices)))
        return _OF_KIND.get(kind) or tuple(map(position_name, range(n_choices)))


NO_TEXTS: Final = ItemTexts()
"""Nothing is known of the items but their ids."""


def answer_names(answers: Sequence[Answer]) -> tuple[str, ...]:
    """Return what answers are called: their keys, or their descriptions if the keys are letters.

    Example:
        >>> answer_names([Answer("A", "Paris"), Answer("B", "Rome")])
        ('Paris', 'Rome')
        >>> answer_names([Answer("false", "No"), Answer("true", "Yes")])
        ('false', 'true')
    """
    keys = tuple(answer.key for answer in answers)
    described = tuple(answer.description for answer in answers if answer.description)
    return described if keys == LETTERS[: len(keys)] and len(described) == len(keys) else keys


def cut(text: str, longest: int) -> str:
    """Cut the end of a text that is too long.

    Example:
        >>> cut("a long text", 9), cut("short", 9)
        ('a long...', 'short')
    """
    return text if len(text) <= longest else f"{text[: longest - 3].rstrip()}..."


def item_texts(
    run: ExperimentRun, paths: Sequence[Path] = (), *, required: bool = False
) -> ItemTexts:
    """Read the texts of the items of a run.

    They are in the data files, in those that `run.json` names if they are unchanged, or in the
    table that was imported.

    Args:
        run: the run.
        paths: data files or folders; without any, files that `run.json` names.
        required: whether data files that do not have the items are an error, and more than
            `MOST_AUDITED` records are read; otherwise their texts count as not known.

    Raises:
        InputError: texts are required, and a data file lacks items or contradicts the run.
        RecordError: texts are required, and a data file cannot be read.
    """
    try:
        return texts_of(run, _read_records(run, paths, required=required))
    except (InputError, RecordError):
        if required and paths:
            raise
        return texts_of(run, {})


def texts_of(run: ExperimentRun, records: Mapping[str, Record]) -> ItemTexts:
    """Return the texts of the items of a run, whose records are read already."""
    log = run.provenance.recorded.get("log")
    options = log.get("options") if isinstance(log, dict) else None
    if isinstance(options, list):
        return ItemTexts(records, tuple(map(str, options)))
    facts = item_facts(run, QUESTION) if isinstance(options, dict) else None
    if not isinstance(options, dict) or facts is None or QUESTION not in facts.columns:
        return ItemTexts(records)
    names = question_texts(facts[QUESTION]).tolist()
    known = {key: tuple(map(str, v)) for key, v in options.items() if isinstance(v, list)}
    return ItemTexts(records, (), dict(zip(facts["id"], names, strict=True)), known)


def _read_records(
    run: ExperimentRun, paths: Sequence[Path], *, required: bool
) -> Mapping[str, Record]:
    files = list(files_of_paths(paths or remembered_data([run])[0]))
    table = _imported_table(run, files)
    named = [*files, *([] if table is None else [table])]
    if not named or not (required or sum(map(count_lines, named)) <= MOST_AUDITED):
        return {}
    if table is None:
        return records_of_run(run, {sha256_of_file(file): file for file in files}, {})
    return _fitting(records_of_table(table, _reading(run)), run.predictions)


def _imported_table(run: ExperimentRun, files: Sequence[Path]) -> Path | None:
    """Return the table that was imported: one of the files, or without any, the recorded one.

    None if it is not there, or was changed.
    """
    recorded = run.provenance
    log = recorded.recorded.get("log")
    if not isinstance(log, dict) or log.get("format") != "rows":
        return None
    own = [] if recorded.data_file is None else [Path(recorded.data_file)]
    tables = [path for path in files or own if path.is_file()]
    return next((p for p in tables if sha256_of_file(p) == recorded.data.sha256), None)


def _reading(run: ExperimentRun) -> Reading:
    """Return how an imported table is read as a dataset: with its columns and answers."""
    log = run.provenance.recorded.get("log")
    block = log if isinstance(log, dict) else {}
    columns, options, form = (block.get(name) for name in ("columns", "options", "answers"))
    roles = columns if isinstance(columns, dict) else {}
    return Reading(
        columns={
            role: tuple(map(str, names))
            for role, names in roles.items()
            if role in ROLES and isinstance(names, list)
        },
        options=tuple(map(str, options)) if isinstance(options, list) else (),
        form=str(form) if form in FORMS else None,
    )


def _fitting(records: Mapping[str, Record], views: Predictions) -> Mapping[str, Record]:
    """Return the records that have the number of answers and a right answer of their items."""
    right = views.right_answers
    rows = zip(views.ids.tolist(), views.n_choices.tolist(), right, strict=True)
    return {
        key: records[key]
        for key, n, correct in rows
        if key in records
        and records[key].n_choices == n
        and (reference := records[key].reference) is not None
        and correct[reference]
    }


def files_of(folder: Path) -> tuple[DataFile, ...]:
    """Return the files of a dataset, from its manifest if it has one.

    Raises:
        InputError: there is no dataset, or the role of a file is unknown.
    """
    path = folder / MANIFEST_NAME
    manifest = read_manifest(path).value if path.exists() else None
    return dataset_files(folder, manifest)


def files_of_paths(paths: Sequence[Path]) -> Iterable[Path]:
    """Yield files of records, and the files of dataset folders.

    Raises:
        InputError: a path is missing, or a folder contains no dataset.
    """
    for path in paths:
        if path.is_dir():
            yield from (file.path for file in files_of(path))
        elif path.is_file():
            yield path
        else:
            raise InputError(f"{path}: file or folder of records not found")


def records_of_run(
    run: ExperimentRun, hashes: Mapping[str, Path], read: dict[Path, dict[str, Record]]
) -> dict[str, Record]:
    """Return the records of the items of a run, by id.

    Args:
        run: the run.
        hashes: files of records by SHA-256. If one has the hash that the run recorded, it is read;
            otherwise all are searched.
        read: files that are read already; those that are read here are added.

    Raises:
        InputError: the files do not contain all items, or a record contradicts the run.
        RecordError: a file cannot be read.
    """
    sha256 = data_hash(run)
    own = None if sha256 is None else hashes.get(sha256)
    files = list(hashes.values()) if own is None else [own]
    table = _imported_table(run, files)
    for file in files:
        if file not in read and file == table:
            read[file] = {**records_of_table(file, _reading(run))}
        elif file not in read:
            reading = AUTOMATIC if own is None else data_reading(run)
            read[file] = {record.id: record for record in read_dataset_records(file, reading)}
    records = _match_records(run, [read[file] for file in files], files)
    _check_questions(run, records)
    return records


def _match_records(
    run: ExperimentRun, sources: Sequence[Mapping[str, Record]], files: Sequence[Path]
) -> dict[str, Record]:
    matched: dict[str, Record] = {}
    missing = []
    for key in run.predictions.ids.tolist():
        record = next((source[key] for source in sources if key in source), None)
        if record is None:
            missing.append(key)
        else:
            matched[key] = record
    if missing:
        raise InputError(
            f"{', '.join(map(str, files))}: expected the records of all {len(run.predictions):,} "
            f"items of {run.place}, {len(missing):,} are missing ({some_of(missing)})"
        )
    return matched


def _check_questions(run: ExperimentRun, records: Mapping[str, Record]) -> None:
    """Raise if a record has another question than the run; pairs do not say what was asked."""
    views = run.predictions
    if views.known in UNNAMED:
        return
    facts = zip(
        views.ids.tolist(),
        views.kind.tolist(),
        views.n_choices.tolist(),
        views.reference.tolist(),
        strict=True,
    )
    other = [
        key
        for key, kind, n, reference in facts
        if (records[key].field.kind, records[key].n_choices, records[key].reference)
        != (kind, n, reference)
    ]
    if other:
        items, have = counted(len(other), "item"), "has" if len(other) == 1 else "have"
        raise InputError(
            f"{run.place}: {items} {have} another kind, number of answers or "
            f"reference in the records that were given ({some_of(other)}); give the dataset that "
            "the run scored"
        )
