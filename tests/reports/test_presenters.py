"""The registry of presenters: every result of the API has a module of its name."""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest

import pact_cli
import pact_eval
from pact_reports import presenters
from pact_reports.presenters.presenter import Presenter
from pact_reports.presenters.registry import presenter_of
from pact_reports.table import Line

LIBRARY = Path(pact_eval.__file__).parent
COMMANDS = Path(pact_cli.__file__).parent
PRINTING = {"ci_output.py", "commands.py", "console.py", "errors.py", "steps.py", "rich_output.py"}
NAMES = {module.name for module in pkgutil.iter_modules(presenters.__path__)}
RESULTS = sorted(
    name
    for package in (LIBRARY, Path(presenters.__file__).parents[1])
    for path in package.rglob("*.py")
    for name in re.findall(
        r"^class (\w+)\((?:Result|Framed)\):", path.read_text(encoding="utf-8"), re.MULTILINE
    )
    if name != "Framed"
)


@pytest.mark.parametrize("name", sorted(NAMES - {"presenter", "registry"}))
def test_every_module_presents(name: str) -> None:
    assert callable(import_module(f"pact_reports.presenters.{name}").present)


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_has_a_module_of_its_name(name: str) -> None:
    assert re.sub("(?<!^)(?=[A-Z])", "_", name).lower() in NAMES


def test_a_type_without_a_module_is_refused() -> None:
    assert len(RESULTS) > 10
    with pytest.raises(TypeError, match="Line"):
        presenter_of(Line("text"))


@pytest.mark.parametrize("path", sorted(COMMANDS.rglob("*.py")), ids=lambda path: path.stem)
def test_commands_print_by_emit(path: Path) -> None:
    calls = re.findall(r"\b(?:echo|print|print_json|show)\(", path.read_text(encoding="utf-8"))
    assert not calls or path.name in PRINTING


def test_remarks_are_beside_what_a_command_prints() -> None:
    presenter = Presenter(lambda: [Line("path")], dict, remarks=lambda: [Line("left out")])
    (block,) = presenter.printed()
    assert [part.text for part in block if isinstance(part, Line)] == ["path"]
    assert [part.text for part in presenter.parts() if isinstance(part, Line)] == [
        "left out",
        "path",
    ]


def test_a_command_prints_no_warnings_among_its_tables() -> None:
    presenter = Presenter(lambda: [Line("table")], dict, ["Look."], lambda: ["Fine."])
    (block,) = presenter.printed()
    assert [part.text for part in block if isinstance(part, Line)] == ["table", "Fine."]
    texts = [part.text for part in presenter.parts() if isinstance(part, Line)]
    assert texts == ["Warning: Look.", "table", "Fine."]
