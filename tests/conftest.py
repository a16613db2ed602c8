"""Settings for all tests."""

from __future__ import annotations

import gc
import json
import os
import signal
from collections import Counter

# Before any test imports torch: idle OpenMP threads of one worker must not spin on the cores that
# the other workers need. See pact_eval/scoring/__init__.py.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Before any test imports numpy: one thread per worker. Our matrices are small, and threads that
# wait for each other made the fit of a calibrator four times as slow.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Output that is piped is 120 columns wide; a worker of pytest-xdist would say otherwise.
os.environ.pop("COLUMNS", None)

from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings, strategies
from needs import leave_out
from published import SOURCES, shared_path

# pytest collects a million objects that stay. To visit all of them again and again took a third of
# its time, and 15 s of a test that imports a large library.
gc.disable()

# A shell ignores Ctrl-C in what it starts in the background, and so would all processes of tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is not a failure: benchmarks measure speed, tests do not.
settings.register_profile("pact", deadline=None)
settings.register_profile("fast", deadline=None, max_examples=25)  # for `make test`
settings.load_profile("pact")


@pytest.fixture(scope="session")
def made_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a made experiment, in the published layout; its numbers are known."""
    from made_experiment import write_experiment

    folder = tmp_path_factory.mktemp("made")
    write_experiment(folder)
    return folder


@pytest.fixture
def one_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pages of commands draw one figure: figures take most of the time of a page."""
    from pact_reports.figures.registry import FIGURES

    monkeypatch.setattr("pact_reports.page.figures.FIGURES", {"pairs": FIGURES["pairs"]})


@pytest.fixture(scope="session", params=SOURCES)
def experiment_files(request: pytest.FixtureRequest, made_files: Path) -> Path:
    """The folder of the made experiment, and that of the published one where it is."""
    return made_files if request.param == "made" else shared_path("published")


@pytest.fixture(scope="session")
def aurc_of_ties(experiment_files: Path, made_files: Path) -> float:
    """The AURC of the rows with ties in expected order; the experiment published another."""
    from made_rows import aurc_in_expected_order, made_items

    return aurc_in_expected_order(made_items()) if experiment_files == made_files else 0.0465013


@pytest.fixture(scope="session", params=SOURCES)
def golden_prompts(request: pytest.FixtureRequest) -> Any:
    """A request of three fields and its prompts: typed by hand, and the published one."""
    made = Path(__file__).parent / "prompts" / "golden_prompts.json"
    path = made if request.param == "made" else shared_path("contract/prompt_golden.json")
    return json.loads(path.read_text(encoding="utf-8"))


def pytest_configure() -> None:
    """Let scoring use MKL only if PACT_TEST_PRODUCTS is `mkl`; otherwise the probe decides."""
    if os.environ.get("PACT_TEST_PRODUCTS") == "mkl":
        from pact_eval.scoring import cpu

        cpu.onednn_stays_float32 = lambda: False  # type: ignore[assignment]


def pytest_collection_finish() -> None:
    """From now on garbage is collected, among the objects that tests make.

    No test has to pay for the tables of Unicode, which Hypothesis makes once in a checkout.
    """
    strategies.text().validate()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what the machine lacks. The files with most slow tests run first."""
    left_out = leave_out(items)
    items[:] = [item for item in items if item not in set(left_out)]
    config.hook.pytest_deselected(items=left_out)
    if os.name == "nt":
        for item in items:
            if item.get_closest_marker("posix"):
                item.add_marker(pytest.mark.skip(reason="needs POSIX"))
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which servers that others wrote have run, and how far they were from a local run."""
    passed = terminalreporter.getreports("passed")
    ran = [value for report in passed for key, value in report.user_properties if key == "server"]
    skipped = terminalreporter.getreports("skipped")
    left_out = sum("test_foreign_servers" in report.nodeid for report in skipped)
    if ran or left_out:
        terminalreporter.section(f"servers that others wrote: {len(ran)} ran, {left_out} left out")
        for name, version, wire, off in ran:
            differs = "no weights to compare" if off is None else f"largest difference {off:.1e}"
            terminalreporter.line(f"{name} {version}, wire {wire}: {differs}")
