"""The registry of presenters: every result of the API has a module of its name."""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest

import pact_eval
from pact_reports import presenters
from pact_reports.presenters.presenter import Presenter
from pact_reports.presenters.registry import presenter_of
from pact_reports.table import Line

LIBRARY = Path(pact_eval.__file__).parent
NAMES = {module.name for module in pkgutil.iter_modules(presenters.__path__)}
RESULTS = sorted(
    name
    for path in LIBRARY.rglob("*.py")
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


def test_a_command_prints_no_warnings_among_its_tables() -> None:
    presenter = Presenter(lambda: [Line("table")], dict, ["Look."], lambda: ["Fine."])
    (block,) = presenter.printed()
    assert [part.text for part in block if isinstance(part, Line)] == ["table", "Fine."]
    texts = [part.text for part in presenter.parts() if isinstance(part, Line)]
    assert texts == ["Warning: Look.", "table", "Fine."]
