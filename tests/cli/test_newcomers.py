"""What a newcomer tries first. Source of truth: what people typed, and what they had to know."""

from __future__ import annotations

import json
import re
import sys
import tarfile
import zipfile
from pathlib import Path, PurePosixPath
from types import ModuleType

import polars as pl
import pytest
from commands import runner
from run_frames import rows, write_run

from pact_cli.errors import needs_model_extra
from pact_cli.main import main
from pact_eval.errors import MissingExtraError
from pact_eval.preregistration.criteria import read_hypotheses

ROOT = Path(__file__).parents[2]
run = runner(main)


def test_an_error_is_json_on_stdout_with_json(tmp_path: Path) -> None:
    result = run("report", tmp_path, "--json", code=1)
    error = json.loads(result.stdout)["error"]
    assert (error["kind"], error["exit_code"]) == ("RunError", 1)
    assert "run.json" in error["message"]
    assert error["message"] in result.stderr
    assert run("report", tmp_path, code=1).stdout == ""


def test_wrong_usage_is_json_too(tmp_path: Path) -> None:
    result = run("compare", tmp_path, "--json", code=2)
    error = json.loads(result.stdout)["error"]
    assert error["exit_code"] == 2
    assert "two or more runs" in error["message"]


def test_a_gate_that_fails_after_its_output_prints_one_object(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", rows(1, families=6), arm="a", seed=1)
    path = folder / "predictions.parquet"
    pl.read_parquet(path).head(12).write_parquet(path)
    result = run("verify", folder, "--json", code=5)
    assert json.loads(result.stdout)["runs"][0]["checks"][0]["outcome"] == "differs"


def test_the_example_of_hypotheses_can_be_registered(tmp_path: Path) -> None:
    path = tmp_path / "hypotheses.toml"
    assert "edit it" in run("register", path, "--example").stdout
    assert [hypothesis.id for hypothesis in read_hypotheses(path).hypotheses] == ["H1", "H2"]
    run("register", path)
    assert path.with_suffix(".lock").exists()
    assert "exists already" in run("register", path, "--example", code=1).stderr


def test_a_library_that_cannot_be_imported_is_not_called_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Any ImportError was reported as "transformers is not installed".
    monkeypatch.setitem(sys.modules, "transformers", ModuleType("transformers"))
    with pytest.raises(MissingExtraError, match="cannot import name 'AutoTokenizer'"):
        _import_a_name()
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match="transformers, which is not installed"):
        _import_the_library()


def _import_a_name() -> None:
    with needs_model_extra():
        from transformers import AutoTokenizer  # noqa: F401


def _import_the_library() -> None:
    with needs_model_extra():
        import transformers  # noqa: F401


def named_in_the_readme() -> set[str]:
    """Returns the paths of README: its links, its pictures, and those in its commands."""
    text = (ROOT / "README.md").read_text()
    links = re.findall(r"\]\(([\w./-]+)\)|src=\"([\w./-]+)\"", text)
    places = "benchmarks|cli|docs|examples|fixtures|pact_eval|pact_losses|reports|tests"
    words = re.findall(rf"(?<![\w./-])(?:{places})/[\w./-]*\w", text)
    return {link or image for link, image in links} | set(words) | {"Makefile", "constraints.txt"}


@pytest.mark.slow
def test_what_is_built_has_what_the_readme_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = pytest.importorskip("hatchling.build")
    monkeypatch.chdir(ROOT)
    with tarfile.open(tmp_path / backend.build_sdist(str(tmp_path))) as sdist:
        files = {name.partition("/")[2] for name in sdist.getnames()}
    folders = {str(folder) for name in files for folder in PurePosixPath(name).parents}
    assert not [path for path in named_in_the_readme() if path.rstrip("/") not in files | folders]
    with zipfile.ZipFile(tmp_path / backend.build_wheel(str(tmp_path))) as wheel:
        modules = set(wheel.namelist())
    assert modules >= {
        "pact_cli/main.py",
        "pact_eval/preregistration/example.toml",
        "pact_fixtures/adapters/pact/adapter_model.safetensors",
        "pact_fixtures/data/holdout.jsonl",
        "pact_fixtures/model/model.safetensors",
        "pact_reports/page/assets/page.css",
        "pact_reports/page/templates/page.html",
    }
