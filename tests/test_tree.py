"""The tree keeps its promises: exports, help, documentation, and what commands load."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from run_frames import rows, write_run

from pact_cli.audit.main import main as audit
from pact_cli.commands import SETTING, Option
from pact_cli.main import main as evaluate
from pact_eval.evaluation.registry import registered_metrics
from pact_eval.importing.row_reader import COLUMNS
from pact_eval.runs.rows import SCHEMA

ROOT = Path(__file__).resolve().parents[1]
PRINTING = {"commands.py", "console.py", "errors.py", "steps.py"}
PACKAGES = sorted(
    ".".join(path.parent.relative_to(ROOT).parts)
    for path in (ROOT / "pact_eval").rglob("__init__.py")
)


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_exports_what_it_says(name: str) -> None:
    package = importlib.import_module(name)
    exported = getattr(package, "__all__", [])
    assert sorted(set(exported)) == sorted(exported)
    assert all(hasattr(package, public) for public in exported)


def test_commands_print_by_emit() -> None:
    printing = {
        path.name
        for path in (ROOT / "cli" / "pact_cli").rglob("*.py")
        if re.search(r"\b(?:echo|print|print_json|show)\(", path.read_text(encoding="utf-8"))
    }
    assert printing <= PRINTING


def test_every_command_is_on_the_first_page() -> None:
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for program, group in (("pact-eval", evaluate), ("pact-audit", audit)):
        for name, command in group.commands.items():
            # As a word: `score` is in `scorecard`.
            assert re.search(rf"\b{program} {name}(?![\w-])", page), name
            for parameter in command.params:
                if isinstance(parameter, click.Option):
                    assert parameter.help, (name, parameter.name)


def test_the_list_of_commands_has_the_first_sentence_of_each() -> None:
    for group in (evaluate, audit):
        for commands in group.sections.values():
            for name, (_, sentence) in commands.items():
                command = group.commands[name]
                assert (command.name, (command.help or "").split("\n")[0]) == (name, sentence)


def test_every_option_and_setting_is_in_the_docs() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    named = set(re.findall(r"(?:--)?[a-z][a-z-]*", text))
    for group in (evaluate, audit):
        for name, command in group.commands.items():
            for option in (each for each in command.params if isinstance(each, Option)):
                mark = "--" if option.group == SETTING else ""
                called = {word.removeprefix(mark) for word in option.opts}
                assert named & called, (name, option.opts)


def test_every_metric_and_column_is_documented() -> None:
    metrics = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    for spec in registered_metrics():
        assert f"| {spec.title} |" in metrics
    pages = (ROOT / "docs" / name for name in ("records.md", "predictions.md"))
    records = "".join(page.read_text(encoding="utf-8") for page in pages)
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


PLAIN = """
import importlib, pkgutil, sys
from pact_eval.errors import MissingExtraError

blocked = set(sys.argv[1:])


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(name, name=name)


sys.meta_path.insert(0, Blocked())
for package in ("pact_eval", "pact_reports", "pact_cli"):
    path = importlib.import_module(package).__path__
    for module in pkgutil.walk_packages(path, package + "."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except (ModuleNotFoundError, MissingExtraError):
                print(module.name)
"""
OF_EXTRAS = re.compile(
    r"pact_eval\.export|pact_eval\.(scoring|training)\.|pact_eval\.templates\.contract|pact_reports\.model_card"
)


def test_without_extras_all_modules_but_those_of_extras_are_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def names(requirements: list[str]) -> set[str]:
        words = (re.match(r"[\w.-]+", requirement) for requirement in requirements)
        return {word[0].replace("-", "_") for word in words if word}

    extras = set[str]().union(*map(names, project["optional-dependencies"].values()))
    blocked = sorted(extras - names(project["dependencies"]))
    assert {"torch", "ray", "psutil", "httpx2"} <= {*blocked}
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, *blocked], capture_output=True, text=True, check=True
    )
    missing = [name for name in done.stdout.split() if not OF_EXTRAS.match(name)]
    assert not missing


COMMANDS = """
import sys
from pact_cli.main import main
for command in ("report", "verify"):
    main([command, sys.argv[1]], standalone_mode=False)
loaded = {name.partition(".")[0] for name in sys.modules}
assert "numpy" in loaded
print("loaded", *loaded & {"torch", "transformers", "peft", "ray", "scipy"}, file=sys.stderr)
"""


def test_commands_without_a_model_load_no_model_library(tmp_path: Path) -> None:
    """Nor scipy: to import it took a sixth of the processor time of a report."""
    run = write_run(tmp_path / "run", rows(0, k=4, families=12), arm="a", seed=1)
    words = [sys.executable, "-c", COMMANDS, str(run)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "loaded"


COMPLETED = """
import sys
from click import Context
from pact_cli.main import main
main(["--help"], standalone_mode=False)
print(*(item.value for item in main.shell_complete(Context(main), "re")))
print(*{"numpy", "polars", "rich", "pact_cli.report"} & set(sys.modules))
"""


def test_the_list_of_commands_and_their_completion_import_none_of_them() -> None:
    words = [sys.executable, "-c", COMPLETED]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == ["report register", ""]
