"""The public API: its names, how it loads, and that it returns what the packages compute."""

from __future__ import annotations

import doctest
import importlib
import inspect
import json
import re
import shutil
import subprocess
import sys
import typing
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import site_hooks
from commands import runner
from run_frames import ablated_rows, rows, write_run
from thresholds.simulated import run as simulated

import pact_eval
from pact_cli.main import main
from pact_eval.api import AuditOptions
from pact_eval.audit.context import DataAuditSettings
from pact_eval.evaluation.experiment import Experiment
from pact_eval.preregistration.criteria import write_example
from pact_eval.results import Result
from pact_eval.scoring.request import ModelOptions, ModelRequest
from pact_reports.views.registry import presenter_of

SHIPPED = Path(__file__).resolve().parents[1] / "fixtures" / "pact_fixtures"
SETTINGS = pact_eval.Settings(resamples=200)
PACKAGES = ("metrics", "stats", "training")


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    return write_run(tmp_path / "a", rows(1)), write_run(tmp_path / "b", rows(2))


def test_every_name_is_there_and_on_the_page() -> None:
    """A function that a command calls may be on the page of commands, next to that."""
    docs = SHIPPED.parents[1] / "docs"
    pages = (docs / page for page in ("python.md", "index.md"))
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    for name in pact_eval.__all__:
        assert getattr(pact_eval, name) is not None
        assert re.search(rf"`(pact_eval\.)?{name}\b", text), name
    assert set(pact_eval.__all__) <= set(dir(pact_eval))
    assert len(pact_eval.__all__) <= 23
    with pytest.raises(AttributeError, match="no attribute 'scores'"):
        _ = pact_eval.scores


def functions_of_the_api() -> Iterator[tuple[str, Any]]:
    """Yields the functions, and the methods and properties of the classes."""
    for name in pact_eval.__all__:
        value = getattr(pact_eval, name)
        yield name, value
        for member_name, member in vars(value).items() if inspect.isclass(value) else ():
            function = getattr(member, "__func__", None) or getattr(member, "fget", None)
            function = function or getattr(member, "func", member)
            if inspect.isfunction(function):
                yield f"{name}.{member_name}", function


@pytest.mark.slow
def test_every_function_has_an_example_that_calls_it() -> None:
    """The examples of all modules run as tests; see `conftest.py`."""
    lacking = []
    packages = ("pact_eval", "pact_losses", *(f"pact_eval.{name}" for name in PACKAGES))
    for package in map(importlib.import_module, packages):
        for name in site_hooks.exported(package):
            function = getattr(package, name)
            text = inspect.getdoc(function) or ""
            parsed = doctest.DocTestParser().get_examples(text)
            runs = [each.source for each in parsed if doctest.SKIP not in each.options]
            if inspect.isfunction(function) and f"{name}(" not in "".join(runs):
                lacking.append(f"{package.__name__}.{name}")
    assert not lacking


@pytest.mark.parametrize(("name", "value"), [*functions_of_the_api()])
def test_type_hints_can_be_read(name: str, value: Any) -> None:
    assert name
    assert "typing.ForwardRef" not in str(typing.get_type_hints(value))


def test_importing_loads_no_library() -> None:
    code = (
        "import sys, pact_eval; pact_eval.errors.InputError;"
        "print({'numpy', 'polars', 'scipy', 'sklearn', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_evaluate_and_compare_are_what_an_experiment_computes(runs: tuple[Path, Path]) -> None:
    experiment = Experiment.read(runs, SETTINGS, unique_labels=False)
    first, _ = experiment.runs
    evaluation = pact_eval.evaluate(pact_eval.read_run(runs[0]), SETTINGS)
    assert evaluation.groups[0].estimates == experiment.evaluation(first).groups[0].estimates
    comparison = pact_eval.compare(*runs, SETTINGS)
    expected = experiment.comparisons.of_first[0]
    assert comparison.groups[0].metrics == expected.groups[0].metrics


@pytest.mark.parametrize(
    ("options", "request_of", "own"),
    [
        (AuditOptions, DataAuditSettings, set()),
        (ModelOptions, ModelRequest, {"adapter", "base_model", "apply_adapter"}),
    ],
)
def test_options_are_the_fields_that_they_set(options: Any, request_of: Any, own: set[str]) -> None:
    """A misspelt option is found by a type checker, and refused when it is called."""
    assert set(options.__annotations__) == {field.name for field in fields(request_of)} - own
    with pytest.raises(TypeError, match="onli"):
        pact_eval.audit_dataset("data", onli=())  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="devise"):
        pact_eval.score("data", "run", devise="cpu")  # type: ignore[call-arg]


@pytest.mark.slow
def test_a_run_that_was_read_is_not_read_again(runs: tuple[Path, Path]) -> None:
    """Once, `evaluate(run)` kept the folder alone and read its files a second time."""
    from_folders = pact_eval.compare(*runs, SETTINGS)
    a, b = map(pact_eval.read_run, runs)
    for folder in runs:
        shutil.rmtree(folder)
    comparison = pact_eval.compare(a, b, SETTINGS)
    assert comparison.groups[0].metrics == from_folders.groups[0].metrics
    assert pact_eval.evaluate(a, SETTINGS).groups[0].items == len(a.predictions)
    assert pact_eval.choose_thresholds(a, 0.5, settings=SETTINGS).gates
    assert pact_eval.measure_drift(a, b, replace(SETTINGS, margin=0.1)).pairing.paired


def test_the_report_of_python_has_the_json_of_the_command(runs: tuple[Path, Path]) -> None:
    """Rates, order and digest were once put together by the command alone."""
    printed = runner(main)("report", runs[0], "--json", "--full", "--resamples", 200)
    report = Experiment.read([runs[0]], SETTINGS).report()
    assert presenter_of(report).json() == json.loads(printed.stdout)
    assert "Accuracy" in str(report)


def test_ablated_contexts_are_evaluated_and_not_compared(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    ablated = write_run(tmp_path / "ablated", ablated_rows(1))
    evaluation = pact_eval.evaluate(str(ablated), SETTINGS)
    assert "ablated_gap" in evaluation.groups[0].estimates
    with pytest.raises(pact_eval.errors.RunError, match="ablated contexts has no references"):
        pact_eval.compare(runs[0], ablated, SETTINGS)


def test_notebooks_show_results_as_tables_with_inert_text(tmp_path: Path) -> None:
    frame = rows(1).with_columns(domain=pl.lit("<script>"))
    settings = pact_eval.Settings(resamples=200, by="domain")
    run = write_run(tmp_path / "a", frame)
    html = pact_eval.evaluate(run, settings)._repr_html_()
    assert "<table" in html
    assert "Accuracy" in html
    assert "<script>" not in html
    assert "<table" in pact_eval.compare(run, run, settings)._repr_html_()


@pytest.mark.slow
def test_every_result_is_shown_as_tables(runs: tuple[Path, Path], tmp_path: Path) -> None:
    chosen_on, new = simulated(tmp_path / "january", 1), simulated(tmp_path / "march", 2)
    thresholds, sets = (
        pact_eval.choose_thresholds(chosen_on, 0.3),
        pact_eval.choose_answer_sets(new),
    )
    thresholds.write(tmp_path / "thresholds.json")
    sets.write(tmp_path / "sets.json")
    write_example(tmp_path / "hypotheses.toml")
    settings = pact_eval.Settings(resamples=200, margin=0.05)
    results: tuple[Result, ...] = (
        pact_eval.evaluate(runs[0], settings),
        pact_eval.compare(*runs, settings),
        pact_eval.audit_dataset(SHIPPED / "data" / "holdout.jsonl", only=("schema",)),
        pact_eval.fit_calibrator(runs[0], mode="scalar"),
        pact_eval.compare_remedies(runs[0], settings),
        pact_eval.measure_drift(*runs, settings),
        pact_eval.judge(tmp_path / "hypotheses.toml", runs, settings),
        thresholds,
        pact_eval.check_thresholds(tmp_path / "thresholds.json", new),
        sets,
        pact_eval.check_answer_sets(tmp_path / "sets.json", chosen_on),
        pact_eval.read_run(runs[0]),
    )
    for result in results:
        assert "<table" in result._repr_html_()
        lines = str(result).splitlines()
        assert any(line.startswith("+--") for line in lines)
        assert max(map(len, lines)) <= 92
        assert json.dumps(result.to_json(), allow_nan=False)


def test_audits_of_the_shipped_data_and_adapter() -> None:
    audit = pact_eval.audit_dataset(SHIPPED / "data", only=("hashes", "schema"))
    assert [check.findings for check in audit.checks] == [(), ()]
    one = pact_eval.audit_dataset(SHIPPED / "data" / "holdout.jsonl", only=("schema",))
    assert not one.checks[0].findings
    adapter = pact_eval.audit_adapter(SHIPPED / "adapters" / "pact")
    assert not any(check.findings for check in adapter.checks)
    assert "<table" in adapter._repr_html_()
