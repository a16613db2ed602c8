"""The tree keeps its promises: exports, docstrings, help, documentation."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import architecture_tree
import click
import pytest
from run_frames import edit_run, rows, write_run

from pact_cli.audit.main import main as audit
from pact_cli.main import main as evaluate
from pact_eval._choices import DATA_CHECK_NAMES
from pact_eval._files import sha256_of_file
from pact_eval.evaluation.registry import registered_metrics
from pact_eval.importing.row_reader import COLUMNS
from pact_eval.runs.rows import SCHEMA

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "fixtures" / "pact_fixtures" / "data"
SOURCES = sorted(
    path
    for folder in ("pact_eval", "pact_losses", "cli", "reports", "fixtures")
    for path in (ROOT / folder).rglob("*.py")
)
PACKAGES = sorted(
    ".".join(path.parent.relative_to(ROOT).parts)
    for path in SOURCES
    if path.name == "__init__.py" and path.is_relative_to(ROOT / "pact_eval")
)


@pytest.mark.slow
def test_functions_fit_a_screen() -> None:
    functions, _ = _statements()
    assert not [f"{name} has {lines} lines" for name, lines in functions if lines > 55]


@cache
def _statements() -> tuple[list[tuple[str, int]], list[tuple[Path, ast.ImportFrom]]]:
    """The functions of all modules with their lines, and the imports from modules."""
    functions, imports = [], []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                functions.append((f"{path.relative_to(ROOT)}: {node.name}", _lines_of_code(node)))
            elif isinstance(node, ast.ImportFrom):
                imports.append((path, node))
    return functions, imports


def _lines_of_code(node: ast.FunctionDef) -> int:
    docstring = ast.get_docstring(node, clean=False) or ""
    return (node.end_lineno or 0) - node.lineno + 1 - docstring.count("\n")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_exports_what_it_says(name: str) -> None:
    package = importlib.import_module(name)
    exported = getattr(package, "__all__", [])
    assert sorted(set(exported)) == sorted(exported)
    assert all(hasattr(package, public) for public in exported)


WITH_NAMES = {
    *("pact_eval", "pact_losses"),
    *("pact_eval.metrics", "pact_eval.stats", "pact_eval.training"),
}


def test_only_packages_for_users_export_names() -> None:
    """An `__init__` that imports makes every command load what it does not use."""
    inits = [path for path in SOURCES if path.name == "__init__.py"]
    lean = [path for path in inits if _module(path) not in WITH_NAMES]
    assert len(lean) > 20
    _, imports = _statements()
    importing = [
        _module(path) for path, node in imports if path in lean and node.module != "__future__"
    ]
    assert not importing


def test_code_imports_from_modules_or_from_packages_with_names() -> None:
    packages = {_module(path): path.parent for path in SOURCES if path.name == "__init__.py"}
    _, imports = _statements()
    through_a_door = [
        f"{path.relative_to(ROOT)}:{node.lineno} from {node.module} import {name.name}"
        for path, node in imports
        if node.module in packages.keys() - WITH_NAMES
        for name in node.names
        if not (packages[node.module] / name.name).with_suffix(".py").exists()
        and f"{node.module}.{name.name}" not in packages
    ]
    assert not through_a_door


def _module(path: Path) -> str:
    """The name of a package: its path, below the folder of its distribution."""
    parts = path.parent.relative_to(ROOT).parts
    return ".".join(parts if parts[0].startswith("pact_") else parts[1:])


@pytest.mark.slow
def test_the_pages_show_the_real_tree_and_layers() -> None:
    hint = "run: python tests/architecture_tree.py"
    tree, layers = (architecture_tree.TREE, "tree"), (architecture_tree.ARCHITECTURE, "layers")
    assert architecture_tree.block(*tree) == architecture_tree.tree(), hint
    assert architecture_tree.block(*layers) == architecture_tree.layers(), hint


def test_the_architecture_page_is_read_in_ten_minutes() -> None:
    words = architecture_tree.ARCHITECTURE.read_text(encoding="utf-8").split()
    assert len(words) <= 2_200


@pytest.mark.slow
def test_doctests_of_a_module_leave_the_function_of_its_name_in_the_package() -> None:
    """pytest put its second copy of the module `word_diff` in the place of the function."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["pact_eval/data/word_diff.py", "tests/data/test_word_diff.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_command_is_on_the_page_of_commands() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for program, group in (("pact-eval", evaluate), ("pact-audit", audit)):
        for name, command in group.commands.items():
            # As a word: `score` is in `scorecard`.
            assert re.search(rf"\b{program} {name}(?![\w-])", page), name
            for parameter in command.params:
                if isinstance(parameter, click.Option):
                    assert parameter.help, (name, parameter.name)


def test_every_option_is_in_the_docs() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    named = set(re.findall(r"--[a-z][a-z-]*", text))
    for group in (evaluate, audit):
        for name, command in group.commands.items():
            for parameter in command.params:
                if isinstance(parameter, click.Option):
                    assert named.intersection(parameter.opts), (name, parameter.opts)


def test_every_metric_and_column_is_documented() -> None:
    metrics = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    for spec in registered_metrics():
        assert f"| {spec.title} |" in metrics
    records = (ROOT / "docs" / "records.md").read_text(encoding="utf-8")
    for column in (*SCHEMA, *COLUMNS):
        assert f"`{column}`" in records or f"| {column} |" in records, column


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


MODULES = """
import sys
from {main} import main
main(sys.argv[1:], standalone_mode=False)
ours = ("pact_eval", "pact_losses", "pact_cli", "pact_reports", "pact_fixtures", "scipy")
loaded = [name for name in sys.modules if name.partition(".")[0] in ours]
print("", *loaded, sep="\\n", file=sys.stderr)
"""


def _modules_of(
    main: str, command: str, path: Path, *options: str, package: str = r"pact_\w+"
) -> set[str]:
    """Return our modules, or a package's, that a command has imported when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", MODULES.format(main=main), command, str(path), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    return {line for line in done.stderr.splitlines() if re.fullmatch(rf"{package}(\.\w+)*", line)}


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_the_audit_of_data_imports_few_modules(options: tuple[str, ...]) -> None:
    loaded = _modules_of("pact_cli.audit.main", "data", DATA, *options)
    assert loaded >= {f"pact_eval.audit.{name}" for name in DATA_CHECK_NAMES}
    assert len(loaded) <= 120
    others = ("pact_eval.evaluation.registry", "pact_eval.metrics", "pact_eval.audit.adapter")
    assert not loaded.intersection(others)


@pytest.mark.parametrize(("dataset", "most"), [(None, 118), (DATA / "holdout.jsonl", 158)])
def test_a_report_imports_few_modules(tmp_path: Path, dataset: Path | None, most: int) -> None:
    """If the dataset of the run is at hand, it is audited, which needs the checks."""
    run = write_run(tmp_path / "run", rows(0, k=2, families=12), arm="a", seed=1)
    if dataset is not None:
        edit_run(run, settings={"data": {"sha256": sha256_of_file(dataset)}}, data=str(dataset))
    loaded = _modules_of("pact_cli.main", "report", run)
    assert {"pact_eval.evaluation.report", "pact_reports.writers.terminal"} <= loaded
    assert ("pact_eval.audit.separation" in loaded) == (dataset is not None)
    assert len(loaded) <= most
    for others in ("comparison", "run_comparisons"):
        assert f"pact_eval.evaluation.{others}" not in loaded
    files = ("pact_reports.page", "pact_reports.figures", "pact_reports.files")
    assert not [name for name in loaded if name.startswith(files)]


def test_a_report_does_without_scipy(tmp_path: Path) -> None:
    """Its functions take a sixth of the processor time of a report to import."""
    run = write_run(tmp_path / "run", rows(0, k=4, families=12), arm="a", seed=1)
    assert _modules_of("pact_cli.main", "report", run, package="pact_cli")
    assert not _modules_of("pact_cli.main", "report", run, package="scipy")
