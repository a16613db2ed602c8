"""The four cards of a page, against planted cases."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from builders import record, write_jsonl
from run_frames import rows, write_run

from pact_eval.audit import DataAuditSettings, DatasetSource, audit_data
from pact_eval.errors import InputError
from pact_eval.evaluation import Cards, DataCard, Experiment, Settings, cards
from pact_eval.evaluation.data_card import data_card, read_data_card
from pact_reports.arm_names import KEYS
from pact_reports.page.cards import cards_html
from pact_reports.writers.json import data_audit_json

NO_AUDIT = DataCard("not audited")
SETTINGS = Settings(resamples=200, method="method")


def found(home: Path, method: pl.DataFrame, other: pl.DataFrame | None = None) -> Cards:
    folders = [write_run(home / "method", method, arm="method", seed=1)]
    if other is not None:
        folders.append(write_run(home / "other", other, arm="other", seed=1))
    return cards(Experiment.read(folders, SETTINGS), NO_AUDIT)


def scaled(frame: pl.DataFrame, factor: float) -> pl.DataFrame:
    logits = pl.col("logits").list.eval(pl.element() * factor)
    return frame.with_columns(logits.cast(frame.schema["logits"]))


def drawn_to_the_first_letter(frame: pl.DataFrame, by: float) -> pl.DataFrame:
    """Adds to the logit of the answer that stands at letter A."""
    logits = []
    for row in frame.iter_rows(named=True):
        logits.append(list(row["logits"]))
        logits[-1][row["code_order"][0]] += by
    return frame.with_columns(pl.Series("logits", logits, dtype=frame.schema["logits"]))


def test_a_better_run(tmp_path: Path) -> None:
    assert found(tmp_path, rows(1, skill=3.0), rows(2, skill=0.5)).better.status == "better"


def test_a_worse_run(tmp_path: Path) -> None:
    assert found(tmp_path, rows(1, skill=0.5), rows(2, skill=3.0)).better.status == "worse"


def test_a_difference_that_is_not_shown(tmp_path: Path) -> None:
    card = found(tmp_path, rows(1), rows(4)).better
    assert card.status == "not shown"
    assert list(card.leads[0].by_views) == [1, 3]


def test_one_run_has_nothing_to_compare(tmp_path: Path) -> None:
    assert found(tmp_path, rows(1)).better.status == "nothing to compare"


def test_a_run_that_follows_letters(tmp_path: Path) -> None:
    card = found(tmp_path, drawn_to_the_first_letter(rows(1), 3.0)).letters
    assert card.status == "letters"
    assert card.biased
    assert card.letters.favoured == (0,)


def test_a_run_that_follows_answers(tmp_path: Path) -> None:
    card = found(tmp_path, rows(1, families=60, skill=9.0)).letters
    assert card.status == "answers"
    assert card.flip_rate.high < 0.1


def test_one_view_does_not_say_what_is_followed(tmp_path: Path) -> None:
    assert found(tmp_path, rows(1, k=1, skill=9.0)).letters.status == "unknown"


def test_an_over_confident_run(tmp_path: Path) -> None:
    card = found(tmp_path, scaled(rows(1, families=90), 4.0)).probabilities
    assert card.status == "over-confident"
    assert card.confidence > card.accuracy


def test_an_under_confident_run(tmp_path: Path) -> None:
    card = found(tmp_path, scaled(rows(1, families=90, skill=3.0), 0.2)).probabilities
    assert card.status == "under-confident"


def leaking(home: Path) -> DatasetSource:
    """An evaluation file with a training record in it."""
    names = [f"f{n}-{variant}" for n in range(4) for variant in ("base", "counterfactual")]
    train = write_jsonl(home / "train.jsonl", [record(name) for name in names])
    evaluation = write_jsonl(home / "eval.jsonl", [record(name) for name in names[:2]])
    return DatasetSource.of_files((train,), (evaluation,), None)


def test_data_that_leaks(tmp_path: Path) -> None:
    card = data_card(audit_data(leaking(tmp_path), DataAuditSettings()))
    assert card.status == "problems"
    assert "separation" in card.failed
    (separation,) = (each for each in card.checks if each.check == "separation")
    shared = separation.codes[0]
    assert (shared.code, shared.severity, shared.count) == ("shared-id", "error", 2)
    assert [place.record_id for place in shared.places] == ["f0-base", "f0-counterfactual"]
    (hashes,) = (each for each in card.checks if each.check == "hashes")
    assert hashes.skipped == "no --manifest given"


def test_the_json_of_an_audit_gives_the_same_card(tmp_path: Path) -> None:
    source, settings = leaking(tmp_path), DataAuditSettings()
    audit = audit_data(source, settings)
    value: Any = data_audit_json(audit, settings=settings, manifest=None, fail_on="error")
    path = tmp_path / "audit.json"
    path.write_text(json.dumps(value))
    hashes = [audit.facts[1].sha256]
    assert read_data_card(path, hashes) == data_card(audit)
    other = read_data_card(path, [*hashes, "f" * 64])
    assert (other.status, other.reason) == (
        "not audited",
        "audit.json is about other files than the runs (ffffffffffff)",
    )
    path.write_text('{"files": [{"sha256": 3}], "checks": []}')
    with pytest.raises(InputError, match="expected the output of `pact-audit data --json`"):
        read_data_card(path, hashes)


def test_a_card_says_why_it_is_empty(tmp_path: Path) -> None:
    empty = replace(found(tmp_path, rows(1)), data=DataCard("not audited", reason="no <data>"))
    html = cards_html(empty, KEYS).text
    assert "no &lt;data&gt;" in html
    assert html.count('class="card"') == 4
