"""The public API: audit, score, evaluate, compare, calibrate and judge from Python.

`import pact_eval` offers these names, and loads this module when one is first used. Functions that
take a run accept a `Run`, or the path or URL of a run folder.

The examples use the adapters and data of `pact_fixtures` and small runs of random logits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, cast, get_args

import polars as pl

from pact_eval._choices import Allowance, Decoding, Mode, RunRole, check_choice
from pact_eval.audit.adapter import audit as adapter_audits
from pact_eval.audit.adapter.audit import AdapterAudit
from pact_eval.audit.context import DataAuditSettings, DatasetSource, NamedTokenizer
from pact_eval.audit.dataset import DataAudit, audit_data
from pact_eval.calibration.runs import FittedRun, fit_on_run
from pact_eval.data.files import dataset_file
from pact_eval.data.labelled.reading import take_reading
from pact_eval.data.opening import local_data, only_file_of
from pact_eval.data.records import read_records as read_records
from pact_eval.drift import unlabelled
from pact_eval.drift.drift import measure_drift as measure_drift
from pact_eval.drift.run_comparison import RunComparison, compare_runs
from pact_eval.drift.unlabelled import UnlabelledDrift
from pact_eval.errors import InputError
from pact_eval.errors import PactError as PactError
from pact_eval.evaluation.experiment import Experiment, RunEvaluation
from pact_eval.evaluation.settings import Settings
from pact_eval.importing import import_run as imported
from pact_eval.importing import stored as stored_runs
from pact_eval.importing.import_run import ImportedRun
from pact_eval.importing.source import LogOptions, import_options
from pact_eval.models import find_adapter
from pact_eval.preregistration.run_scorecard import JudgedHypotheses, judge_sources
from pact_eval.remedies import RemedyComparison, remedies_of_run
from pact_eval.runs import folder as run_folders
from pact_eval.runs.folder import Run, RunSource
from pact_eval.runs.provenance import RunLabels
from pact_eval.sample_sizes import SamplePlan, plan_items
from pact_eval.scoring.request import ScoreOptions, request_of
from pact_eval.scoring.sources import (
    default_folder,
    row_source,
    score_content_free,
    with_recorded_dtype,
)
from pact_eval.scoring.windows import read_dataset, score_windows
from pact_eval.scoring.workers.messages import WorkersRequest
from pact_eval.thresholds.answer_sets import choose_answer_sets as choose_answer_sets
from pact_eval.thresholds.checking import check_answer_sets as check_answer_sets
from pact_eval.thresholds.checking import check_thresholds as check_thresholds
from pact_eval.thresholds.choice import choose_thresholds as choose_thresholds
from pact_eval.thresholds.conclusion import with_acting

_FINDINGS_KEPT = 20


class AuditOptions(TypedDict, total=False):
    """Fields of `pact_eval.audit.DataAuditSettings`, which documents them."""

    only: Collection[str] | None
    max_edit_words: int
    near_duplicate: float
    keep: int
    k: int
    seed: int
    tokenizer: NamedTokenizer | None


class PlanOptions(TypedDict, total=False):
    """Options of `plan`, which are those of `pact_eval.sample_sizes.plan_items`."""

    agree: float | None
    family_size: int
    alike: float | None
    gate_error: float | None


def plan(difference: float, accuracy: float, **options: Unpack[PlanOptions]) -> SamplePlan:
    """Say how many items are needed, as `pact-eval plan` does.

    Args:
        difference: smallest difference that matters, in points.
        accuracy: percentage of right answers, about.
        options: `agree`, `alike` and `gate_error`, percentages, and `family_size`; see
            `pact_eval.sample_sizes.plan_items`.

    Returns:
        The items for a comparison, for equivalence, for an interval, for a gate and for a test of
        letters, each with its assumption and a range.

    Raises:
        InputError: a number cannot be meant as a percentage, or the numbers exclude each other.

    Examples:
        >>> import pact_eval
        >>> plan = pact_eval.plan(5, 80, agree=85)
        >>> plan.sizes[0].items, plan.sizes[0].line
        (461, 'To show a difference of 5 points at 80% right: about 460 items.')
    """
    return plan_items(difference, accuracy, **options)


def audit_dataset(path: Path | str, **options: Unpack[AuditOptions]) -> DataAudit:
    """Audit a dataset, as `pact-audit data` does.

    Args:
        path: folder of a dataset with its manifest, or one file of records; if the `manifest.json`
            next to the file names it, the folder is audited. On the Hub,
            `hf://datasets/owner/name[@revision][/path]`.
        options: fields of `pact_eval.audit.DataAuditSettings`, such as `only` or
            `near_duplicate`.

    Returns:
        One result per check, with its findings.

    Raises:
        InputError: a file cannot be read.

    Examples:
        >>> import pact_eval
        >>> audit = pact_eval.audit_dataset("data/holdout.jsonl", only=("schema",))
        >>> [(check.check, len(check.findings)) for check in audit.checks]
        [('schema', 0)]
    """
    settings = DataAuditSettings(**options)
    return audit_data(DatasetSource.of_paths([local_data(path)]), settings)


def audit_adapter(
    folder: Path | str, *, base_model: Path | str | None = None, data: Path | str | None = None
) -> AdapterAudit:
    """Audit an adapter folder without loading it, as `pact-audit adapter` does.

    Args:
        folder: as PEFT writes it, or a Hub id `owner/name[@revision]`.
        base_model: folder of the base model; None takes the one that the adapter names.
        data: dataset file or folder to compare with the adapter's training record.

    Returns:
        The facts and one result per check.

    Raises:
        AdapterError: a folder does not exist, or the Hub cannot provide the adapter.
        InputError: the dataset cannot be read.

    Examples:
        >>> import pact_eval
        >>> audit = pact_eval.audit_adapter("adapters/pact")
        >>> [check.check for check in audit.checks if check.findings]
        []
    """
    adapter = find_adapter(folder, audited=True)
    return adapter_audits.audit_adapter(
        adapter.folder,
        base_model=None if base_model is None else Path(base_model),
        data=() if data is None else (local_data(data),),
        others=adapter.others,
        keep=_FINDINGS_KEPT,
    )


def read_run(folder: Path | str) -> Run:
    """Read a complete run with references.

    Args:
        folder: a run folder, as `score` or `pact-eval import` writes it, or its URL in an object
            store (`s3://bucket/runs/pact`), whose files are copied.

    Returns:
        The run, with its provenance and predictions.

    Raises:
        RunError: the folder is not a complete run, is damaged, or has ablated contexts.

    Examples:
        >>> import pact_eval
        >>> run = pact_eval.read_run("runs/method")
        >>> run.arm, run.seed, len(run.predictions), run.predictions.k
        ('method', 17, 60, 3)
    """
    return run_folders.read_run(folder)


def score(
    data: Path | str,
    out: Path | str | None = None,
    *,
    adapter: Path | str | None = None,
    base_model: str | None = None,
    no_adapter: bool = False,
    server: str | Sequence[str] | None = None,
    k: int = 4,
    order_seed: int = 0,
    limit: int | None = None,
    arm: str | None = None,
    train_seed: int | None = None,
    role: RunRole | None = None,
    workers: int | None = None,
    ray: str | None = None,
    content_free: bool = False,
    allow: Collection[Allowance] = (),
    **options: Unpack[ScoreOptions],
) -> Run:
    """Score a dataset into a run folder, or resume one, as `pact-eval score` does.

    Options have the names of the command line.

    Args:
        data: file of records, of a known shape of labelled data, or of ablated contexts; of a
            folder, the evaluation file that its manifest names. On the Hub,
            `hf://datasets/owner/name[@revision][/path]`.
        out: the run folder; None takes arm or adapter, `train_seed` and `role` in `runs`.
        adapter: adapter folder, or Hub id `owner/name[@revision]`; None scores the base model
            alone.
        base_model: folder or hub id; None takes what the adapter names.
        no_adapter: score the base model that the adapter names alone.
        server: address of a server that answers instead, or those of its replicas; needs `model`.
        k: views per record, at least 1.
        order_seed: seed of the letter orders.
        limit: score only the first records.
        arm: name of the recipe.
        train_seed: seed of the training.
        role: what the run is for: "evaluation" (the default), "calibration" or "selection".
        workers: score with this many processes, each with its own copy of the model.
        ray: score on this Ray cluster: host:port, or "auto".
        content_free: also score each question without a context, for contextual calibration.
        allow: "trained-on" scores data that the adapter was trained on, "other-data" a file that
            is not the one of its manifest; the run and every output say so.
        options: `shape`, `columns`, `question`, `options` and further ones of labelled data
            (`pact_eval.data.labelled.reading.reading_of`);
            `device`, `dtype`, `engine` and further fields of
            `pact_eval.scoring.request.ModelRequest`; with `server`, `model`, `wire`,
            `api_key_env`, `timeout` in seconds and further fields of
            `pact_eval.scoring.servers.wire.ServerRequest`.

    Returns:
        The complete run.

    Raises:
        InputError: a file cannot be read, or options do not go together.
        PromptError: a prompt is over the limit.
        AdapterError: the model cannot be loaded, or the adapter changes nothing.
        ServerError: the server cannot be used, or has changed since the run began.
        RunError: the folder belongs to other settings.
        WorkerError: workers cannot be started, disagree or fail.
        GateError: the adapter was trained or selected on families or contexts of the data.
        TamperedError: the data are not those that their manifest names.
        MissingExtraError: a library of the extra `model`, `server` or `ray` is not installed.

    Examples:
        >>> import pact_eval
        >>> run = pact_eval.score(
        ...     "data/holdout.jsonl",
        ...     "runs/new-pact",
        ...     adapter="adapters/pact",
        ...     base_model="model",
        ...     k=2,
        ...     limit=4,
        ...     device="cpu",
        ... )
        >>> len(run.predictions), run.predictions.k
        (4, 2)
    """
    reading = take_reading(cast("dict[str, Any]", options))
    request = request_of(
        adapter=adapter,
        base_model=base_model,
        no_adapter=no_adapter,
        server=server,
        options=options,
    )
    labels = _labels(arm, train_seed, role)
    folder = default_folder(request, labels) if out is None else Path(out)
    file = dataset_file(only_file_of(local_data(data)))
    dataset = read_dataset(
        file, k=k, order_seed=order_seed, limit=limit, allow=allow, reading=reading
    )
    source = row_source(with_recorded_dtype(request, folder), _pool(workers, ray))
    score_windows(source, dataset, folder, labels=labels, allow=allow)
    if content_free:
        score_content_free(source, dataset, folder, labels=labels, allow=allow)
    return read_run(folder)


def _pool(workers: int | None, ray: str | None) -> WorkersRequest | None:
    """Return the workers that were asked for, if any."""
    return None if workers is None and ray is None else WorkersRequest(workers, ray)


def import_run(
    log: Path | str,
    out: Path | str | None = None,
    *,
    arm: str | None = None,
    train_seed: int | None = None,
    role: RunRole | None = None,
    **options: Unpack[LogOptions],
) -> ImportedRun:
    """Import a log or predictions as a run, as `pact-eval import` does.

    Options have the names of the command line, except `source` for `--from`.

    Args:
        log: a file or folder of a known format, or its URL; or a table (CSV, JSON, Parquet) with
            right answers, and probabilities of shape (answers,) or predictions.
        out: the run folder; importing the same log again leaves it as it is. None takes the name
            of the log, in `runs`, with a number behind it if that is another run.
        arm: name of the recipe.
        train_seed: seed of the training.
        role: what the run is for: "evaluation" (the default), "calibration" or "selection".
        options: `source`, `map` (our column to its name in the file), `suite` and further fields
            of `pact_eval.importing.source.ImportOptions`.

    Returns:
        The complete run. Its `remarks` say what to know of the log, one sentence each.

    Raises:
        InputError: the log cannot be read, or its format is not known.
        ShapeError: two readings of a table fit and differ.
        RecordError: a row is malformed, or the log contradicts itself; nothing is written.
        RunError: the folder cannot be used, or has a run with other settings.

    Examples:
        >>> import json
        >>> from pathlib import Path
        >>> import pact_eval
        >>> row = {"id": "a", "reference": 1, "p": [0.25, 0.75], "note": "easy"}
        >>> _ = Path("rows.jsonl").write_text(json.dumps(row))
        >>> run = pact_eval.import_run("rows.jsonl", "runs/theirs", map={"probabilities": "p"})
        >>> len(run.predictions), run.remarks
        (1, ('Further columns, for --by: note.',))
    """
    labels, how = _labels(arm, train_seed, role), import_options(options)
    if out is None:
        stored = stored_runs.store_run(Path(log), labels=labels, options=how)
        return ImportedRun.of(read_run(stored.folder), stored.remarks)
    rows = imported.import_run(Path(log), Path(out), labels, how)
    return ImportedRun.of(read_run(out), rows.remarks)


def evaluate(run: RunSource, settings: Settings | None = None) -> RunEvaluation:
    """Compute every number of the report on a run, as `pact-eval report` shows them.

    Args:
        run: a run, or its folder.
        settings: decoding, grouping and bootstrap; None takes the defaults.

    Returns:
        Estimates by group and metric, with intervals over families, typed notes, and warnings on
        the calibrator. With `target_error` in the settings, it also concludes whether the model may
        act alone. A notebook shows it as tables; its `report` also has the rates at view 0, what
        the order of answers does, and the digest: to show these reads the folder again.

    Raises:
        RunError: the folder is not a complete run.
        InputError: there is no such decoding of the run, or no calibrator.

    Examples:
        >>> import pact_eval
        >>> evaluation = pact_eval.evaluate("runs/method", pact_eval.Settings(by="kind"))
        >>> [group.name for group in evaluation.groups]
        ['all', 'choice', 'boolean', 'score']
        >>> accuracy = evaluation.groups[0].estimates["accuracy"]
        >>> accuracy.low < accuracy.value < accuracy.high
        True
    """
    report = _experiment([run], settings).report()
    if settings is not None and settings.target_error is not None:
        report = with_acting(report)
    return RunEvaluation.of(report)


def compare(a: RunSource, b: RunSource, settings: Settings | None = None) -> RunComparison:
    """Compare two runs item by item, as `pact-eval compare` does; differences are a minus b.

    Args:
        a: the first run, or its folder.
        b: the second run, on the same items.
        settings: decoding, grouping, bootstrap and equivalence margin; None takes the defaults.

    Returns:
        Differences by group and metric as fractions (NLL in nats), with exact tests of accuracy.
        Its `conclusion` says whether the first run is better, and its `warnings` name accepted
        differences between the runs, and what to know of the calibrators if they are applied.
        If one run was served and the other scored here, `tempering` has the temperatures of both.
        If they differ in the quantisation of the base model, `quantising` has its cost.

    Raises:
        RunError: a folder is not a complete run with references.
        InputError: item sets differ, a run lacks the decoding or a calibrator, or a URL with a
            pattern names further runs.

    Examples:
        >>> import pact_eval
        >>> comparison = pact_eval.compare("runs/method", "runs/baseline")
        >>> accuracy = comparison.groups[0].metrics["accuracy"]
        >>> round(accuracy.difference.value, 3) == round(accuracy.a.value - accuracy.b.value, 3)
        True
        >>> accuracy.evidence.test
        'interval'
        >>> comparison.tempering is None and comparison.quantising is None
        True
    """
    comparison, *others = compare_runs(_experiment([a, b], settings))
    if others:
        raise InputError(f"expected two runs, got {len(others) + 2}; compare_runs compares several")
    return comparison


def fit_calibrator(
    run: RunSource,
    holdouts: Sequence[RunSource] = (),
    *,
    mode: Mode | Literal["auto"] = "auto",
    decoding: Decoding = "single",
    allow: Sequence[Allowance] = (),
) -> FittedRun:
    """Fit a temperature on a run of the calibration split, as `pact-eval calibrate` does.

    Args:
        run: the run to fit on.
        holdouts: runs to apply the calibrator to.
        mode: form of the temperature; "auto" selects it by cross-validation over source families.
        decoding: single or ensemble.
        allow: accepted differences between a holdout and the run, such as "other-adapter".

    Returns:
        The fit and its effect on each run. `write()` stores the calibrator in the run folders, if
        it helps: `GateError` otherwise.

    Raises:
        InputError: a holdout has another adapter, base or contract, or shares families with the
            run, or the items cannot be fitted.

    Examples:
        >>> import pact_eval
        >>> fitted = pact_eval.fit_calibrator("runs/january", mode="scalar")
        >>> fitted.calibrator.mode
        'scalar'
    """
    return fit_on_run(run, holdouts, mode=mode, decoding=decoding, allow=allow)


def compare_remedies(run: RunSource, settings: Settings | None = None) -> RemedyComparison:
    """Compare what removes the order effects of a run, as `pact-eval sweep --remedies` does.

    Args:
        run: a run, or its folder; several views per item show more remedies.
        settings: resamples, seed and unit; None takes the defaults.

    Returns:
        One row per remedy, with its cost in prompts and tokens, its metrics, and its differences
        from one view and from all K views.

    Raises:
        RunError: the folder is not a complete run with references.
        InputError: the run has answers and no probabilities, or its letter orders are unknown.

    Examples:
        >>> import pact_eval
        >>> remedies = pact_eval.compare_remedies("runs/method")
        >>> remedies.rows[0].remedy.name, remedies.k
        ('k1', 3)
    """
    experiment = _experiment([run], settings)
    (read,) = experiment.all_runs
    return remedies_of_run(experiment, read)


def compare_logs(
    before: pl.DataFrame | Path | str,
    after: pl.DataFrame | Path | str,
    *,
    names: tuple[str, str] = ("before", "after"),
    below: float | None = None,
    seed: int = 0,
    **options: Unpack[LogOptions],
) -> UnlabelledDrift:
    """Say whether a service has drifted, from two logs whose right answers are not known.

    Args:
        before: a log or a run, as `pact-eval drift` reads it; or a data frame with a row per
            answer: id of the item, family (the group of items that belong together; the id if there
            is none), question, answer or null, and confidence in 0..1 or null. Repeats have the id
            of their item.
        after: the same, on the same items, on others, or on both.
        names: of data frames.
        below: threshold of confidence, in 0..1: the share of answers below it is compared too.
        seed: of the permutations.
        options: how logs are read, as for `import_run`.

    Returns:
        What changed; `finding` is changed, no change shown or too few to tell.

    Raises:
        InputError: a log has no rows or lacks a column, or an item has another family, or another
            question, in the other log.

    Examples:
        >>> import pact_eval, polars as pl
        >>> def log(refunds):
        ...     ids = [f"t{at}" for at in range(200)]
        ...     return pl.DataFrame({"id": ids, "family": ids, "question": "What is asked for?",
        ...         "answer": ["refund" if at < refunds else "other" for at in range(200)],
        ...         "confidence": None})
        >>> pact_eval.compare_logs(log(100), log(103)).finding
        'no change shown'
        >>> pact_eval.compare_logs(log(100), log(140)).finding
        'changed'
    """
    if isinstance(before, pl.DataFrame) and isinstance(after, pl.DataFrame):
        return unlabelled.compare_logs(before, after, names=names, below=below, seed=seed)
    if isinstance(before, pl.DataFrame) or isinstance(after, pl.DataFrame):
        raise InputError("compare_logs: expected two data frames, or two logs or runs")
    sides = (unlabelled.read_place(place, import_options(options)) for place in (before, after))
    return unlabelled.compare_answers(*sides, below=below, seed=seed)


def judge(
    criteria: Path | str, runs: Sequence[RunSource], settings: Settings | None = None
) -> JudgedHypotheses:
    """Judge registered hypotheses on runs, as `pact-eval scorecard` does.

    Args:
        criteria: file of hypotheses; its lock, if any, is next to it.
        runs: runs, run folders, or tables of metrics (`.csv`).
        settings: bootstrap of the intervals; None takes the defaults.

    Returns:
        The verdicts with their evidence, and what the registration proves.

    Raises:
        InputError: a source cannot be read, runs hold other items, or two runs have the same arm
            and seed.
        RecordError: the hypotheses are malformed.
        RunError: a folder is not a complete run.

    Examples:
        >>> import pact_eval
        >>> judged = pact_eval.judge("hypotheses.toml", ["runs/method", "runs/baseline"])
        >>> {result.hypothesis.id: result.verdict for result in judged.scorecard.results}
        {'H1': 'SUPPORTED', 'H2': 'SUPPORTED'}
    """
    return judge_sources(Path(criteria), runs, settings)


def _labels(arm: str | None, train_seed: int | None, role: RunRole | None) -> RunLabels:
    check_choice("--role", role, get_args(RunRole))
    return {"arm": arm, "seed": train_seed, "role": role}


def _experiment(runs: Sequence[RunSource], settings: Settings | None) -> Experiment:

    return Experiment.read(runs, settings, unique_labels=False)
