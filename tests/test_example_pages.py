"""The pages of the examples: their size, and the numbers that can be made in seconds."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest

from pact_eval.api import compare
from pact_eval.models import sha256_of_weights
from pact_eval.stats.estimate import Estimate

ROOT = Path(__file__).resolve().parents[1]
PAGES = {path.stem: path.read_text("utf-8") for path in (ROOT / "examples").glob("*.md")}
SIGNED = "{:+.1f} points [{:+.1f}, {:+.1f}]"
STORED = ROOT / "tests" / "golden" / "inputs" / "demo-report.tar.xz"


@pytest.mark.parametrize("name", ["miniature", "tetris"])
def test_a_page_can_be_read(name: str) -> None:
    assert len(PAGES[name].split()) <= 1_200


def test_the_shipped_runs_of_the_miniature_against_its_page(tmp_path: Path) -> None:
    """The runs that `make demo-score` makes are stored as inputs of the golden record."""
    assert sha256_of_weights(ROOT / "fixtures" / "pact_fixtures" / "model") in PAGES["miniature"]
    with tarfile.open(STORED) as archive:
        archive.extractall(tmp_path, filter="data")
    made = compare(tmp_path / "demo-pact", tmp_path / "demo-nimble_recipe")
    accuracy = made.groups[0].metrics["accuracy"]
    assert f"{100 * accuracy.b.value:.1f}%" in PAGES["miniature"]
    for estimate, text in ((accuracy.a, "{:.1f} [{:.1f}, {:.1f}]%"), (accuracy.difference, SIGNED)):
        assert isinstance(estimate, Estimate)
        ends = (100 * end for end in (estimate.value, estimate.low, estimate.high))
        assert text.format(*ends) in PAGES["miniature"]


@pytest.mark.parametrize("name", ["miniature", "tetris"])
def test_links_of_a_page_lead_somewhere(name: str) -> None:
    links = re.findall(r"\]\(([^)#]+)", PAGES[name])
    assert links
    assert not [link for link in links if not (ROOT / "examples" / link).exists()]
