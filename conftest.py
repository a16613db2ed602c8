"""Which modules pytest imports, and how; and where the examples of the public API run."""

from __future__ import annotations

import importlib
import re
from collections.abc import Generator, Iterator
from contextlib import chdir, suppress
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule

pytest_plugins = ["border", "pytester"]

_ROOT = Path(__file__).parent
_PARENTS = (_ROOT, *(_ROOT / name for name in ("cli", "reports", "fixtures")))
_PACKAGES = ("pact_eval", "pact_losses", "pact_cli", "pact_reports", "pact_fixtures")


_IN_FOLDER = (
    *("pact_eval.api.", "pact_eval.pytest.", "pact_eval.training."),
    *("pact_eval.data.records.read_records", "pact_losses.candidates."),
    *("pact_eval.thresholds.choice.choose_thresholds", "pact_eval.thresholds.checking.check_"),
    *("pact_eval.thresholds.answer_sets.choose_answer_sets", "pact_eval.drift.drift.measure_"),
)
_SLOW = ("api.score", "candidates.candidate_logits", "adapters.save_adapter", "recipe.train_recipe")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Modules that have no test, or no wanted one, are not imported: PEFT takes 3 s."""
    if collection_path.suffix != ".py" or collection_path.name == "conftest.py":
        return None
    text = collection_path.read_text(encoding="utf-8")
    slow = re.search(r"^pytestmark = .*\bmark\.slow\b", text, re.MULTILINE)
    is_test = collection_path.name.startswith("test_") or ">>>" in text
    is_wanted = is_test and not (slow and "not slow" in config.option.markexpr)
    return None if is_wanted else True


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Import a module of a package before pytest does, and search examples only where some are.

    If its package is not loaded yet, pytest imports the module twice and puts the second copy into
    the package. There it replaces a function of the same name: `pact_eval.data.diff`. To
    search a module for examples looks at all that it imports, which loads most of transformers.
    """
    has_examples = file_path.suffix == ".py" and ">>>" in file_path.read_text(encoding="utf-8")
    for parent in _PARENTS if has_examples else ():
        if file_path.is_relative_to(parent):
            parts = file_path.relative_to(parent).with_suffix("").parts
            if parts[0] in _PACKAGES:
                with suppress(ImportError):  # pytest reports it, with its traceback
                    importlib.import_module(".".join(parts).removesuffix(".__init__"))
    collectors = yield
    return [each for each in collectors if has_examples or not isinstance(each, DoctestModule)]


@pytest.fixture(scope="session")
def example_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `data`, `adapters` and `hypotheses.toml`, and with runs of random logits."""
    from run_frames import rows, write_run
    from thresholds.simulated import run as simulated

    from pact_eval.preregistration.criteria import write_example

    home = tmp_path_factory.mktemp("examples")
    for name in ("data", "adapters", "model"):
        (home / name).symlink_to(_ROOT / "fixtures" / "pact_fixtures" / name)
    for name, skill in (("method", 2.0), ("baseline", 1.0)):
        write_run(home / "runs" / name, rows(1, skill=skill), arm=name, seed=17)
    simulated(home / "runs" / "january", 1)
    simulated(home / "runs" / "march", 2)
    write_example(home / "hypotheses.toml")
    return home


@pytest.fixture(autouse=True)
def in_example_folder(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the examples that read files in their folder."""
    if isinstance(request.node, pytest.DoctestItem) and request.node.name.startswith(_IN_FOLDER):
        with chdir(request.getfixturevalue("example_folder")):
            yield
    else:
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the examples that load a model."""
    for item in items:
        if item.name.endswith(_SLOW) and isinstance(item, pytest.DoctestItem):
            item.add_marker("slow")
