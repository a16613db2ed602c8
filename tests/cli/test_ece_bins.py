"""--ece-bins: one number of bins on every surface, against the metric itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import runner
from conclusions.planted import Plan, scaled

from pact_cli.main import main
from pact_eval import metrics
from pact_eval.evaluation.items import ScoredItems
from pact_eval.runs.folder import read_run

BINS = 30


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = Plan(families=60, k=1, change=scaled(2))
    return plan.write(tmp_path_factory.mktemp("bins") / "first", 3)


@pytest.mark.parametrize("source", ["option", "settings"])
def test_every_surface_has_the_number_of_bins(
    run: Path, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words: tuple[object, ...] = (run, "--resamples", 200)
    if source == "option":
        words = (*words, "--ece-bins", BINS)
    else:
        (tmp_path / "pact.toml").write_text(
            f"[options.report]\nece-bins = {BINS}\n", encoding="utf-8"
        )
    report = runner(main)
    items = ScoredItems.of(read_run(run).predictions, "single")
    printed = json.loads(report("report", *words, "--json").stdout)
    ece = printed["answer"]["probabilities"]["ece"]
    assert ece["bins"] == BINS
    assert ece["value"] == pytest.approx(metrics.ece(items.confidence, items.correct, BINS))
    assert ece["value"] != pytest.approx(metrics.ece(items.confidence, items.correct))
    assert f"ECE ({BINS} bins) {100 * ece['value']:.1f}" in report("report", *words).stdout
    assert f"ECE in {BINS} bins" in report("report", *words, "--full").stdout
    report("report", *words, "--html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"one of {BINS} bins of confidence" in page
    assert f"ECE ({BINS} bins)" in page
