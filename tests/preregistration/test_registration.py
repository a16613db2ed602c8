"""Registration: what counts as a change, who is told, and what is left alone."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from messages import assert_says
from run_frames import edit_run, rows, write_run

from pact_eval._json import Json, sha256_of_json
from pact_eval.errors import InputError, TamperedError
from pact_eval.preregistration.criteria import parse_hypotheses, read_hypotheses
from pact_eval.preregistration.registration import (
    Lock,
    RunFacts,
    canonical_criteria,
    check_lock,
    criteria_sha256,
    lock_path,
    read_lock,
    register,
    run_facts,
)
from pact_eval.runs.folder import RunFolder, open_run
from pact_fixtures.paper import HYPOTHESES

NOW = dt.datetime(2026, 3, 1, 12, 0, 0, 700_000, tzinfo=dt.UTC)
LATER = NOW + dt.timedelta(days=1)
PACT = HYPOTHESES.read_text(encoding="utf-8")
DATA = "the holdout\n"


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "hypotheses.toml"
    path.write_text(PACT, encoding="utf-8")
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "holdout.jsonl"
    path.write_text(DATA, encoding="utf-8")
    return path


def edit(path: Path, old: str, new: str, count: int = 1) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, count), encoding="utf-8")


def facts(lock: Lock, *, started_at: dt.datetime | None = LATER) -> RunFacts:
    return RunFacts("pact_full", 17, started_at, lock.data[0].sha256)


def test_register_writes_a_lock_that_is_read_back(toml: Path, data: Path) -> None:
    lock = register(toml, data=[data], now=NOW)
    assert lock_path(toml).name == "hypotheses.lock"
    assert read_lock(lock_path(toml)) == lock
    assert lock.is_intact
    assert lock.registered_at == NOW.replace(microsecond=0)
    assert lock.tool.startswith("pact-eval ")
    assert lock.criteria_sha256 == criteria_sha256(read_hypotheses(toml))
    assert [data_file.name for data_file in lock.data] == ["holdout.jsonl"]
    assert str(toml.parent) not in lock_path(toml).read_text(encoding="utf-8")
    assert [path.name for path in toml.parent.iterdir() if path.name.startswith(".")] == []


def test_times_of_other_zones_are_the_same_time(toml: Path) -> None:
    zone = dt.timezone(dt.timedelta(hours=2))
    lock = register(toml, now=NOW.astimezone(zone))
    assert '"registered_at": "2026-03-01T12:00:00+00:00"' in lock_path(toml).read_text("utf-8")
    assert lock.registered_at == NOW.replace(microsecond=0)
    with pytest.raises(ValueError, match="with its zone"):
        register(toml, now=NOW.replace(tzinfo=None))


def test_registered_before_the_runs(toml: Path, data: Path) -> None:
    lock = register(toml, data=[data], now=NOW)
    registration = check_lock(read_hypotheses(toml), lock, [facts(lock)])
    assert (registration.status, registration.reasons) == ("REGISTERED BEFORE THE RUNS", ())
    assert registration.registered_at == lock.registered_at


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ('within = "2 points"', 'within = "5 points"', 'registered "2 points", now "5 points"'),
        ('"score"\nis = "higher"', '"score"\nis = "lower"', "H4, check, higher Score MAE, is: "),
        ('arm = "no_emd"', 'arm = "no_pcr"', 'registered ["no_emd"], now ["no_pcr"]'),
        ('than = { arm = "ce_only" }', 'than = { arm = "base_model" }', ", than, arm: registered"),
        ("by more than it lowers", "by as much as it lowers", "H1, claim: registered"),
        ('decoding = ["single", "ensemble"]', 'decoding = "single"', ', now ["single"]'),
        ("seeds = [17, 18, 19]", "seeds = [18, 19]", "seeds: registered [17, 18, 19], now"),
        ('judged_on = "means"', 'judged_on = "matched"', 'registered "means", now "matched"'),
        ('metric = "score_mae"', 'metric = "score_level_mae"', "metric: registered"),
        ('"not higher"\n', '"not higher"\nby_more_than = "9 points"\n', "by_more_than: added"),
        ('minus = { decoding = "single" }\n', "", "minus: removed since"),
        ('needs = "a calibration of every run"', 'needs = "x"', "H5, check, ECE falls under T(x)"),
        ('title = "Necessity"', 'title = "Need"', 'H3, title: registered "Necessity", now "Need"'),
    ],
)
def test_edited_criteria_are_tampered_with(
    toml: Path, data: Path, old: str, new: str, change: str
) -> None:
    lock = register(toml, data=[data], now=NOW)
    edit(toml, old, new)
    registration = check_lock(read_hypotheses(toml), lock, [facts(lock)])
    (reason,) = registration.reasons
    assert registration.status == "TAMPERED"
    assert change in reason


def test_a_check_that_no_longer_decides_is_tampered_with(toml: Path, data: Path) -> None:
    lock = register(toml, data=[data], now=NOW)
    check = '[[hypothesis.check]]\nsays = "similar Score accuracy"'
    edit(toml, check, check.replace(".check", ".beside"))
    registration = check_lock(read_hypotheses(toml), lock, [facts(lock)])
    assert registration.status == "TAMPERED"
    added, removed = registration.reasons
    assert_says(added, "H4, beside, ", "similar Score accuracy", "added since")
    assert_says(removed, "H4, check, ", "similar Score accuracy", "removed since")


def test_a_dropped_hypothesis_is_tampered_with(toml: Path, data: Path) -> None:
    lock = register(toml, data=[data], now=NOW)
    text = toml.read_text(encoding="utf-8")
    start, end = (text.index(f'[[hypothesis]]\nid = "{name}"') for name in ("H4", "H5"))
    toml.write_text(text[:start] + text[end:], "utf-8")
    registration = check_lock(read_hypotheses(toml), lock, [facts(lock)])
    assert (registration.status, registration.reasons) == ("TAMPERED", ("H4: removed since",))


def test_spelling_that_means_the_same_is_no_change(toml: Path) -> None:
    before = criteria_sha256(read_hypotheses(toml))
    head, *parts = PACT.split("[[hypothesis]]\n")
    reordered = head + "".join(f"[[hypothesis]]\n{part}\n" for part in reversed(parts))
    same = {
        "comments": "# another comment\n" + PACT.replace("\n# ", "\n#   "),
        "spacing": PACT.replace(" = ", "   =  ").replace("\n\n", "\n\n\n"),
        "order of hypotheses": reordered,
        "order in lists": PACT.replace("[17, 18, 19]", "[19, 17, 18]"),
        "lists of one": PACT.replace('arm = "no_cf"', 'arm = ["no_cf"]'),
        "defaults": PACT.replace('arm = "no_cf"', 'arm = "no_cf"\ngroup = "all"'),
        "numbers": PACT.replace('"2 points"', '"2.0  points"'),
        "wrapping": PACT.replace("claim = ", "claim = ")
        .replace('claim = "Without L_EMD, Score MAE', 'claim = """\n  Without L_EMD,\n Score MAE')
        .replace('at similar Score accuracy."', 'at similar Score accuracy."""'),
        "line ends": PACT.replace("\n", "\r\n"),
    }
    for what, text in same.items():
        assert text != PACT
        assert criteria_sha256(parse_hypotheses(text, "same.toml")) == before, what


def test_the_canonical_form_is_frozen() -> None:
    """A change of this hash would call every registration of earlier versions tampered with."""
    text = """
    format = "pact-hypotheses-1"
    [[hypothesis]]
    id = "H1"
    title = "t"
    claim = "c"
    [[hypothesis.check]]
    says = "s"
    metric = "ece"
    arm = ["b", "a"]
    decoding = "single_calibrated"
    is = "similar"
    within = "1.5 points"
    than = { decoding = "single" }
    judged_on = "matched"
    """
    written = (
        '{"format":"pact-hypotheses-1","hypotheses":{"H1":{"check":{"s":{"arm":["a","b"],'
        '"decoding":["single_calibrated"],"group":["all"],"is":"similar","judged_on":"matched",'
        '"metric":"ece","than":{"decoding":"single"},"within":"1.5 points"}},"claim":"c",'
        '"title":"t"}}}'
    )
    expected: Json = json.loads(written)
    assert criteria_sha256(parse_hypotheses(text, "t.toml")) == sha256_of_json(expected)
    assert sha256_of_json(expected) == (
        "13d25e025c8c33fbc244c3061a5a9e00e7d1b2615731ef0c3fb9535af024e5ca"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2026-03-01T12:00:00", "2026-02-01T12:00:00"),
        ("2 points", "5 points"),
        ('"name": "holdout.jsonl"', '"name": "other.jsonl"'),
        ('"tool": "pact-eval', '"tool": "another'),
        ('"criteria_sha256": "', '"criteria_sha256": "0'),
        ('"lock_sha256": "', '"lock_sha256": "0'),
    ],
)
def test_a_lock_edited_by_hand_is_tampered_with(toml: Path, data: Path, old: str, new: str) -> None:
    register(toml, data=[data], now=NOW)
    edit(lock_path(toml), old, new)
    lock = read_lock(lock_path(toml))
    registration = check_lock(read_hypotheses(toml), lock, [facts(lock)])
    assert registration.status == "TAMPERED"
    assert_says(registration.reasons[0], "lock was edited", "after it was written")


def test_a_lock_and_criteria_edited_together_are_tampered_with(toml: Path, data: Path) -> None:
    register(toml, data=[data], now=NOW)
    edit(toml, "2 points", "5 points")
    edit(lock_path(toml), "2 points", "5 points")
    lock = read_lock(lock_path(toml))
    registration = check_lock(read_hypotheses(toml), lock, [facts(lock)])
    assert registration.status == "TAMPERED"
    assert_says(registration.reasons[1], "criteria", "hash was registered")


def test_criteria_that_are_not_those_of_their_hash_are_tampered_with(
    toml: Path, data: Path
) -> None:
    """The outer hash was made anew, the inner one was not."""
    lock = register(toml, data=[data], now=NOW)
    edit(toml, "2 points", "5 points")
    forged = replace(lock, criteria=canonical_criteria(read_hypotheses(toml)))
    forged = replace(forged, lock_sha256=sha256_of_json(forged.content))
    assert not forged.is_intact
    assert check_lock(read_hypotheses(toml), forged, [facts(lock)]).status == "TAMPERED"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"2026-03-01T12:00:00+00:00"', "1", "registered_at: expected text, got an integer"),
        ('"pact-lock-1"', '"pact-lock-2"', "format: expected pact-lock-1, got pact-lock-2"),
        ('"tool"', '"tools"', "lock_sha256, got tools"),
        ('"sha256": "', '"sha1": "', "data[0]: expected only name, sha256, got sha1"),
        ("2026-03-01T12:00:00+00:00", "2026-03-01T12:00:00", "with its time zone"),
        ("2026-03-01T12", "yesterday", "Invalid isoformat"),
        ('"data": [', '"data": 1, "data": [', 'duplicate key "data"'),
        ("{", "", "not valid JSON"),
    ],
)
def test_what_is_no_lock_is_refused(
    toml: Path, data: Path, old: str, new: str, message: str
) -> None:
    register(toml, data=[data], now=NOW)
    edit(lock_path(toml), old, new)
    with pytest.raises(TamperedError, match=r"hypotheses\.lock: .*broken") as caught:
        read_lock(lock_path(toml))
    assert message in str(caught.value)


def test_locks_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such lock; `pact-eval register`"):
        read_lock(tmp_path / "hypotheses.lock")
    with pytest.raises(InputError, match="a file, got a folder"):
        read_lock(tmp_path)
    (tmp_path / "list.lock").write_text("[]", encoding="utf-8")
    with pytest.raises(TamperedError, match="expected an object, got a list"):
        read_lock(tmp_path / "list.lock")


def test_a_run_on_other_data_is_tampered_with(toml: Path, data: Path) -> None:
    lock = register(toml, data=[data], now=NOW)
    other = RunFacts("ce_only", 18, LATER, "ab" * 32)
    registration = check_lock(read_hypotheses(toml), lock, [facts(lock), other])
    assert registration.status == "TAMPERED"
    (reason,) = registration.reasons
    expected = f"registered: holdout.jsonl {lock.data[0].sha256[:12]}"
    assert_says(reason, "ce_only seed 18", "abababababab", expected)


def test_a_run_before_the_registration(toml: Path, data: Path) -> None:
    lock = register(toml, data=[data], now=NOW)
    early = facts(lock, started_at=NOW - dt.timedelta(seconds=2))
    registration = check_lock(read_hypotheses(toml), lock, [facts(lock), early])
    assert registration.status == "REGISTERED AFTER THE RUNS"
    (reason,) = registration.reasons
    began, registered = "2026-03-01T11:59:58+00:00", "2026-03-01T12:00:00+00:00"
    assert_says(reason, "pact_full seed 17 began", began, "registered", registered)
    same_second = facts(lock, started_at=NOW.replace(microsecond=0))
    assert check_lock(read_hypotheses(toml), lock, [same_second]).reasons == ()


def test_tampering_weighs_more_than_being_late(toml: Path, data: Path) -> None:
    lock = register(toml, data=[data], now=NOW)
    edit(toml, "2 points", "5 points")
    early = facts(lock, started_at=NOW - dt.timedelta(days=2))
    registration = check_lock(read_hypotheses(toml), lock, [early])
    assert registration.status == "TAMPERED"
    assert len(registration.reasons) == 2


def test_what_cannot_be_known_is_not_called_fine(toml: Path, data: Path) -> None:
    hypotheses = read_hypotheses(toml)
    assert check_lock(hypotheses, None, []).status == "NOT REGISTERED"
    lock = register(toml, data=[data], now=NOW)
    table = check_lock(hypotheses, lock, [])
    assert table.status == "NOT VERIFIABLE"
    (reason,) = table.reasons
    assert_says(reason, "no runs", "unknown when these began")
    blank = check_lock(hypotheses, lock, [RunFacts("pact_full", 17, None, None)])
    assert blank.status == "NOT VERIFIABLE"
    assert len(blank.reasons) == 2


def test_without_registered_data_nothing_is_known_of_them(toml: Path) -> None:
    lock = register(toml, now=NOW)
    registration = check_lock(
        read_hypotheses(toml), lock, [RunFacts("pact_full", 17, LATER, "ab" * 32)]
    )
    assert registration.status == "NOT VERIFIABLE"
    (reason,) = registration.reasons
    assert_says(reason, "no data were registered", "on any data")


def test_registering_again_keeps_the_first_time(toml: Path, data: Path) -> None:
    first = register(toml, data=[data], now=NOW)
    text = lock_path(toml).read_bytes()
    edit(toml, "# The five hypotheses", "# Five hypotheses")
    assert register(toml, data=[data], now=LATER) == first
    assert lock_path(toml).read_bytes() == text


def test_a_lock_covers_fewer_data_than_were_registered(toml: Path, data: Path) -> None:
    further = data.with_name("ablated.jsonl")
    further.write_text("{}")
    lock = register(toml, data=[data, further], now=NOW)
    for covered in ([], [data], [further]):
        assert register(toml, data=covered, now=LATER) == lock


def test_a_lock_is_not_overwritten_for_other_criteria_or_data(toml: Path, data: Path) -> None:
    register(toml, data=[data], now=NOW)
    text = lock_path(toml).read_bytes()
    registered = data.read_bytes()
    data.write_bytes(b"other data")
    with pytest.raises(InputError, match="not overwritten") as changed:
        register(toml, data=[data], now=LATER)
    sha256 = hashlib.sha256(registered).hexdigest()[:12]
    assert_says(changed.value, "without holdout.jsonl", f"registered data: holdout.jsonl {sha256}")
    data.write_bytes(registered)
    edit(toml, "2 points", "5 points")
    with pytest.raises(InputError, match="not overwritten") as caught:
        register(toml, data=[data], now=LATER)
    assert_says(caught.value, "within", 'registered "2 points"', 'now "5 points"')
    assert lock_path(toml).read_bytes() == text
    edit(lock_path(toml), "2026-03-01", "2026-01-01")
    with pytest.raises(TamperedError, match="edited after"):
        register(toml, data=[data], now=LATER)


def test_a_lock_that_cannot_be_written(toml: Path) -> None:
    (toml.parent / f".hypotheses.lock.{os.getpid()}.tmp").mkdir()
    with pytest.raises(InputError, match=r"hypotheses\.lock: cannot be written"):
        register(toml, now=NOW)


def test_data_that_cannot_be_read(toml: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.jsonl: no such file"):
        register(toml, data=[tmp_path / "missing.jsonl"], now=NOW)
    assert not lock_path(toml).exists()


def run(tmp_path: Path, **provenance: Any) -> RunFolder:
    return open_run(edit_run(write_run(tmp_path / "run", rows(1, families=1)), **provenance))


def test_facts_of_a_scored_run(tmp_path: Path) -> None:
    scored = run(
        tmp_path,
        source="score",
        arm="pact_full",
        seed=17,
        created="2026-03-02T10:00:00+00:00",
        settings={"data": {"sha256": "ab" * 32}},
    )
    began = dt.datetime(2026, 3, 2, 10, tzinfo=dt.UTC)
    assert run_facts(scored) == RunFacts("pact_full", 17, began, "ab" * 32)
    assert str(run_facts(scored)) == "pact_full seed 17"


def test_an_import_does_not_know_when_it_was_scored_and_on_what(tmp_path: Path) -> None:
    imported = run(
        tmp_path,
        source="import",
        arm=None,
        seed=None,
        created="2026-03-02T10:00:00+00:00",
        settings={"data": {"sha256": "ab" * 32}},
    )
    assert run_facts(imported) == RunFacts("run", None, None, None)


@pytest.mark.parametrize("created", [None, "yesterday", "2026-03-02T10:00:00"])
def test_a_start_that_is_no_time_is_not_known(tmp_path: Path, created: Json) -> None:
    facts_of_run = run_facts(
        run(tmp_path, source="score", created=created, settings={"data": None})
    )
    assert (facts_of_run.started_at, facts_of_run.data_sha256) == (None, None)
