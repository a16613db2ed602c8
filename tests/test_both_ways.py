"""Python does what the command line does: the JSON of both ways."""

from __future__ import annotations

import inspect
import json
import shutil
import typing
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from adapters import MODEL, copied
from builders import question, record, write_jsonl
from click.testing import CliRunner
from commands import runner, with_settings
from messages import assert_says
from run_frames import edit_run, rows, write_run
from scoring.servers.loopback import serving, systemone

import pact_eval
from pact_cli.audit.main import main as audit
from pact_cli.main import main
from pact_eval.calibration.runs import FittedRun
from pact_eval.results import Result
from pact_eval.runs.folder import Run
from pact_reports.views.registry import presenter_of
from pact_reports.views.report import present_run_report

run = runner(main)
HOLDOUT = MODEL.parent / "data" / "holdout.jsonl"
OF_A_PROCESS = ("created", "finished", "wall_seconds", "command_line", "seal", "workers")
OF_A_MODEL: dict[str, Any] = {
    "adapter": {"sha256": "a" * 64, "config_sha256": "c" * 64},
    "base": {"sha256": "b" * 64, "config_sha256": "c" * 64},
    "dtype": "bfloat16",
}
NF4 = {"quantisation": {"method": "nf4", "double": True, "compute": "bfloat16"}}


def printed(*words: object) -> Any:
    """Returns the JSON that a command prints."""
    return json.loads(run(*words, "--json").stdout)


@pytest.mark.parametrize(
    ("second_settings", "analyses"),
    [
        (OF_A_MODEL, ()),
        ({"server": {"wire": "systemone"}}, ("tempering",)),
        (OF_A_MODEL | NF4, ("quantising",)),
    ],
)
def test_a_comparison(
    tmp_path: Path, second_settings: dict[str, Any], analyses: tuple[str, ...]
) -> None:
    first, second = (write_run(tmp_path / name, rows(seed)) for seed, name in enumerate("ab"))
    edit_run(first, source="score", settings=OF_A_MODEL)
    edit_run(second, source="score", settings=second_settings)
    settings = pact_eval.Settings(resamples=200, margin=0.05)
    comparison = pact_eval.compare(first, second, settings)
    command = printed("compare", first, second, "--resamples", 200, "--margin", 0.05)
    assert presenter_of(comparison).json() == command
    assert {"tempering", "quantising"} & set(command["comparisons"][0]) == set(analyses)
    text = str(comparison)
    assert ("Served probabilities" in text, "Quantising: " in text) == (
        "tempering" in analyses,
        "quantising" in analyses,
    )


Pair = tuple[Callable[[], Result], tuple[object, ...]]
FEW: Any = ("--resamples", 200)
SETTINGS, MARGIN = pact_eval.Settings(resamples=200), pact_eval.Settings(resamples=200, margin=0.02)
PAIRS: dict[str, Pair] = {
    "evaluate": (
        lambda: pact_eval.evaluate(
            "runs/method", pact_eval.Settings(resamples=200, by="kind", target_error=0.1)
        ),
        ("report", "runs/method", "--full", "--by", "kind", "--target-error", 0.1, *FEW),
    ),
    "evaluate calibrated": (
        lambda: pact_eval.evaluate(
            "runs/march",
            pact_eval.Settings(
                resamples=200, calibrated=True, decoding="ensemble", allow=("other-decoding",)
            ),
        ),
        (
            *("report", "runs/march", "--full", "--calibration", "own", *FEW),
            *("--decoding", "ensemble", "--allow", "other-decoding"),
        ),
    ),
    "compare": (
        lambda: pact_eval.compare("runs/method", "runs/baseline", SETTINGS),
        ("compare", "runs/method", "runs/baseline", *FEW),
    ),
    "measure_drift": (
        lambda: pact_eval.measure_drift("runs/method", "runs/baseline", MARGIN),
        ("compare", "runs/method", "runs/baseline", "--gate", "--margin", 0.02, *FEW),
    ),
    "compare_logs": (
        lambda: pact_eval.compare_logs("runs/method", "runs/baseline"),
        ("drift", "runs/method", "runs/baseline"),
    ),
    "compare_remedies": (
        lambda: pact_eval.compare_remedies("runs/method", SETTINGS),
        ("sweep", "runs/method", "--remedies", *FEW),
    ),
    "plan": (
        lambda: pact_eval.plan(5, 80, agree=85, gate_error=5),
        ("plan", "--difference", 5, "--accuracy", 80, "--agree", 85, "--gate-error", 5),
    ),
    "choose_thresholds": (
        lambda: pact_eval.choose_thresholds("runs/january", 0.3, by="domain"),
        ("thresholds", "runs/january", "--target-error", 0.3, "--gates-by", "domain"),
    ),
    "choose_answer_sets": (
        lambda: pact_eval.choose_answer_sets("runs/january", 0.8),
        ("thresholds", "runs/january", "--coverage", 0.8),
    ),
    "check_thresholds": (
        lambda: pact_eval.check_thresholds("gates.json", "runs/march"),
        ("thresholds", "runs/march", "--check", "gates.json"),
    ),
    "check_answer_sets": (
        lambda: pact_eval.check_answer_sets("sets.json", "runs/march"),
        ("thresholds", "runs/march", "--check", "sets.json"),
    ),
    "judge": (
        lambda: pact_eval.judge("hypotheses.toml", ["runs/method", "runs/baseline"], SETTINGS),
        ("scorecard", "hypotheses.toml", "runs/method", "runs/baseline", *FEW),
    ),
    "audit_dataset": (
        lambda: pact_eval.audit_dataset("data/holdout.jsonl", near_duplicate=0.8, keep=3),
        ("data", "data/holdout.jsonl", "--near-duplicate", 0.8, "--max-findings", 3),
    ),
    "audit_adapter": (
        lambda: pact_eval.audit_adapter("adapters/pact", data="data/holdout.jsonl"),
        ("adapter", "adapters/pact", "--data", "data/holdout.jsonl"),
    ),
    "fit_calibrator": (
        lambda: pact_eval.fit_calibrator("runs/january", ["runs/march"]),
        ("calibrate", "runs/january", "--holdout", "runs/march", "-o", "calibrator.json"),
    ),
    # What a command prints of these is more: one part of it is the result.
    "read_run": (lambda: pact_eval.read_run("runs/method"), ("report", "runs/method", *FEW)),
}
PARTS = {"read_run": "run"}


@pytest.fixture(scope="module")
def home(example_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of the examples, with a calibrator, and files of thresholds and sets."""
    place = tmp_path_factory.mktemp("pairs") / "home"
    shutil.copytree(example_folder, place, symlinks=True)
    with chdir(place):
        pact_eval.fit_calibrator("runs/january", ["runs/march"]).write(force=True)
        pact_eval.choose_thresholds("runs/january", 0.3).write(Path("gates.json"))
        pact_eval.choose_answer_sets("runs/january", 0.9).write(Path("sets.json"))
    return place


def test_every_function_that_returns_a_result_has_a_pair() -> None:
    """`score` and `import_run` make runs, which the tests below compare row by row."""
    functions = {name: getattr(pact_eval, name) for name in pact_eval.__all__}
    returned = {
        name: typing.get_type_hints(function)["return"]
        for name, function in functions.items()
        if inspect.isfunction(function)
    }
    results = {name for name, kind in returned.items() if inspect.isclass(kind)}
    results = {name for name in results if issubclass(returned[name], Result)}
    assert results == {name.split()[0] for name in PAIRS} | {"import_run", "score"}


@pytest.mark.slow
def test_what_a_result_writes_is_read_by_the_command(home: Path) -> None:
    with chdir(home):
        audit_file = pact_eval.audit_dataset("data/holdout.jsonl", only=("schema",)).write("a.json")
        settings = pact_eval.Settings(resamples=100, audit=audit_file)
        report = pact_eval.evaluate("runs/method", settings).write(Path("report.json"))
        run("verify", report, "runs/method")
        run("verify", report, "runs/baseline", code=5)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_the_json_of_a_result_is_that_of_the_command(home: Path, name: str) -> None:
    make, words = PAIRS[name]
    program = audit if words[0] in ("data", "adapter") else main
    with chdir(home):
        result = make()
        ours = result.to_json()
        done = CliRunner().invoke(program, [*map(str, words), "--json"])
    expected = json.loads(done.stdout)
    if name == "fit_calibrator":  # the command has written it
        assert isinstance(result, FittedRun)
        with chdir(home):
            written = [*map(str, result.write(Path("calibrator.json"), force=True))]
        assert [expected.pop("calibration"), *expected.pop("copies")] == written
        assert (ours.pop("calibration"), ours.pop("copies")) == (None, [])
    assert expected.pop("command_line", []) == [] or words[0] in ("data", "adapter")
    part = PARTS.get(name)
    assert json.loads(json.dumps(ours)) == (expected if part is None else {part: expected[part]})


def assert_same(folder: Path, made: Run, command: dict[str, Any]) -> None:
    """The report, `run.json` and rows of Python's run are those of the command."""
    of_run = pact_eval.Experiment.read([made]).report()
    report: dict[str, Any] = present_run_report(of_run, full=False).json()
    warnings = command.pop("warnings")
    assert report.pop("warnings") == warnings
    del report["digest"], command["digest"]  # of the seal, which has the times
    theirs, ours = (dict(value.pop("run")) for value in (command, report))
    assert ours.keys() == theirs.keys() - {"command_line"}
    for name in OF_A_PROCESS:
        theirs.pop(name, None), ours.pop(name, None)
    assert ours == theirs
    assert report == command
    frames = [pl.read_parquet(place / "predictions.parquet") for place in (folder, made.folder)]
    assert frames[0].equals(frames[1])


def test_an_import(tmp_path: Path) -> None:
    log = write_jsonl(
        tmp_path / "rows.jsonl",
        [
            {"id": f"i{n}", "gold_index": n % 2, "p": [0.25, 0.75], "topic": f"t{n % 3}", "x": 1}
            for n in range(12)
        ],
    )
    options: Any = {
        "map": {"probabilities": "p", "reference": "gold_index"},
        "domain_from": "topic",
    }
    words = ("--map", "probabilities=p", "--map", "reference=gold_index", "--domain-from", "topic")
    labels = ("--arm", "theirs", "--train-seed", 3)
    result = run("import", log, "--out", tmp_path / "command" / "run", *words, *labels, "--json")
    made = pact_eval.import_run(
        log, tmp_path / "python" / "run", arm="theirs", train_seed=3, **options
    )
    assert_same(tmp_path / "command" / "run", made, json.loads(result.stdout))
    assert_says(made.remarks[0], "columns", "--by", "topic, x")
    assert len(made.remarks) == 1
    assert made.remarks[0] in result.stderr.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [None, 2])
def test_a_local_model(tmp_path: Path, workers: int | None) -> None:
    adapter = copied(tmp_path / "adapter")
    more = () if workers is None else ("--workers", workers)
    words = ("score", adapter, "--data", HOLDOUT, "--k", 2, "--limit", 70, "--role", "selection")
    command = printed(*words, "--attention", "fused", "--out", tmp_path / "command" / "run", *more)
    made = pact_eval.score(
        HOLDOUT,
        tmp_path / "python" / "run",
        adapter=adapter,
        k=2,
        limit=70,
        role="selection",
        attention="fused",
        workers=workers,
    )
    assert_same(tmp_path / "command" / "run", made, command)


def test_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "secret")
    data = write_jsonl(
        tmp_path / "holdout.jsonl",
        [
            record(f"f{n}-{variant}", decision=question(n=3), state=f"Clerk {n}: {variant}.")
            for n in range(4)
            for variant in ("base", "counterfactual")
        ],
    )
    words = ("--model", "mine", "--k", 3, "--api-key-env", "KEY", "--no-probe")
    monkeypatch.setenv(*next(iter(with_settings(tmp_path, "score", timeout=9).items())))
    with serving(systemone) as server:
        command = printed(
            "score",
            "--server",
            server.url,
            "--data",
            data,
            "--out",
            tmp_path / "command" / "run",
            *words,
        )
        made = pact_eval.score(
            data,
            tmp_path / "python" / "run",
            server=server.url,
            model="mine",
            k=3,
            api_key_env="KEY",
            timeout=9,
            no_probe=True,
        )
    assert_same(tmp_path / "command" / "run", made, command)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "m"}, "--model: cannot be used with an adapter or base model"),
        ({"server": "http://h", "device": "cpu"}, "--device: cannot be used with --server"),
        ({"server": "http://h"}, "expected --model NAME"),
        ({"server": "http://h", "model": "m", "workers": 2}, "--workers, --ray: cannot be used"),
        (
            {"server": "http://h", "model": "m", "timeout": 0.0},
            "--timeout: expected a number above",
        ),
        ({"base_model": "b", "engine": "fast"}, "--engine fast: expected auto, fork, batched or"),
        ({"base_model": "b", "merge": True}, "merge adds the adapter to the weights"),
        ({"base_model": "b", "role": "test"}, "--role test: expected evaluation, calibration or"),
        ({"base_model": "b", "k": 0}, "--k: expected at least 1, got 0"),
        ({}, "no base model"),
    ],
)
def test_options_that_the_command_refuses_raise_input_errors(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(pact_eval.errors.InputError, match=message):
        pact_eval.score(HOLDOUT, tmp_path / "run", **options)


def test_the_run_folder_and_the_file_have_the_defaults_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(systemone) as server:
        model: Any = {
            "server": [server.url],
            "model": "lab/m",
            "no_probe": True,
            "limit": 2,
            "k": 1,
        }
        made = pact_eval.score(HOLDOUT.parent, train_seed=3, **model)
    assert made.folder == Path("runs/m-3")
    assert made.provenance.recorded["data"] == str(HOLDOUT)
