"""The tree keeps its promises: exports, docstrings, help, documentation."""

from __future__ import annotations

import ast
import importlib
import subprocess
from pathlib import Path

import click
import pytest

import pact_eval
from pact_cli.audit.main import main as audit
from pact_cli.evaluate import main as evaluate
from pact_eval.audit import CODES
from pact_eval.evaluation import METRICS
from pact_eval.runs import SCHEMA
from pact_eval.runs.importing.rows import COLUMNS

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(
    path
    for folder in ("pact_eval", "pact_losses", "cli", "reports", "fixtures")
    for path in (ROOT / folder).rglob("*.py")
)
MODULES = sorted(
    ".".join(path.relative_to(Path(pact_eval.__file__).parents[1]).with_suffix("").parts)
    for path in Path(pact_eval.__file__).parent.rglob("*.py")
    if path.name != "__init__.py"
)


@pytest.mark.parametrize("name", MODULES)
def test_all_names_what_a_module_gives(name: str) -> None:
    module = importlib.import_module(name)
    package = importlib.import_module(name.rpartition(".")[0])
    exported = getattr(module, "__all__", None) or package.__all__
    if hasattr(module, "__all__"):
        assert all(hasattr(module, known) for known in exported)
    if not name.rpartition(".")[2].startswith("_"):
        hidden = _public_names(module.__file__) - set(exported)
        assert not hidden, f"public by name, but in no __all__: {hidden}"


def _public_names(path: str | None) -> set[str]:
    tree = ast.parse(Path(str(path)).read_text(encoding="utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_fit_a_screen_and_modules_a_sitting(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 450
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            docstring = ast.get_docstring(node, clean=False) or ""
            lines = (node.end_lineno or 0) - node.lineno + 1 - docstring.count("\n")
            assert lines <= 55, f"{node.name}: {lines} lines"


def test_every_command_is_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for program, group in (("pact-eval", evaluate), ("pact-audit", audit)):
        for name, command in group.commands.items():
            assert f"{program} {name}" in readme
            for parameter in command.params:
                if isinstance(parameter, click.Option):
                    assert parameter.help, (name, parameter.name)


def test_every_code_of_a_finding_is_documented() -> None:
    audits = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    for name, code in CODES.items():
        assert f"| `{name}` | {code.check} | {code.severity} | {code.meaning} |\n" in audits
    assert audits.count("\n| `") == len(CODES)


def test_every_metric_and_column_is_documented() -> None:
    metrics = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    for spec in METRICS:
        assert f"| {spec.title} |" in metrics
    records = (ROOT / "docs" / "records.md").read_text(encoding="utf-8")
    for column in (*SCHEMA, *COLUMNS):
        assert column in records


def test_nothing_speaks_of_the_machine_it_was_made_on() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("no git checkout: an installed copy has no list of its files")
    needles = [f"/{word}/" for word in ("work", "root", "tmp", "home")]
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if not path.is_file() or path.suffix in (".safetensors", ".py"):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        for needle in needles:
            assert needle not in text, f"{name}: {needle}"
