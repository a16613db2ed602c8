"""Drift between runs: counts by hand, other items, gates, and the exit codes of CI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from commands import refuser, runner
from messages import assert_says
from run_frames import ablated_rows, edit_run, frame_of, other_items, rows, write_run
from scipy.stats import binomtest
from thresholds.simulated import run as simulated

from pact_cli.main import main
from pact_eval import measure_drift
from pact_eval.drift.drift import Drift
from pact_eval.drift.pairs import joint_floor
from pact_eval.evaluation.conclusions.order import noise_floor
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.folder import RunWriter
from pact_eval.runs.provenance import Provenance
from pact_eval.runs.rows import SCHEMA, UNANSWERED

run, refused = runner(main), refuser(main)
FAST: Any = {"margin": 0.05, "resamples": 200}


def drift(a: Path, b: Path, **settings: Any) -> Drift:
    return measure_drift(a, b, Settings(**FAST | settings))


def written(folder: Path, answers: list[int | None], **settings: Any) -> Path:
    """Writes a run of four items of two families with three answers; reference 0; None: none."""
    ids = ["f1-a", "f1-b", "f2-a", "f2-b"]
    frame = frame_of(
        id=ids,
        family=["f1", "f1", "f2", "f2"],
        logits=[[] if at is None else [2.0 * (at == slot) for slot in range(3)] for at in answers],
        reference=[0] * 4,
        n_choices=[3] * 4,
        code_order=[[] if at is None else [0, 1, 2] for at in answers],
    )
    frame = frame.with_columns(
        status=pl.Series([None if at is not None else "failed" for at in answers], dtype=pl.String),
        reason=pl.Series([None if at is not None else "none" for at in answers], dtype=pl.String),
    ).cast(dict(SCHEMA) | dict(UNANSWERED))  # type: ignore[arg-type]
    all_settings: dict[str, Any] = {"k": 1, "data": {"records": 4}} | settings
    with RunWriter(folder, all_settings, {"source": "score"}) as writer:
        writer.write_part(0, frame)
        writer.finish(1.0, {})
    return folder


def test_changes_and_distances_by_hand(tmp_path: Path) -> None:
    a = written(tmp_path / "a", [0, 1, 1, 2], dtype="float32")
    b = written(tmp_path / "b", [0, 0, 2, 0], dtype="bfloat16")
    result = drift(a, b)
    (everything, _) = result.answers
    assert (everything.count, everything.better, everything.worse) == (3, 2, 0)
    assert everything.both_wrong == 1
    assert result.test.change.value == 0.5
    assert result.distance is not None
    e = np.exp(2.0)
    moved = (e - 1) / (e + 2)  # two of three probabilities change places
    assert result.distance.quantiles[1.0] == pytest.approx(moved)
    assert result.distance.mean.value == pytest.approx(0.75 * moved)
    # Rounding: tanh(d / 2) of each precision.
    assert result.distance.floor.tv == pytest.approx(
        result.distance.floor.a.tv + result.distance.floor.b.tv
    )
    assert result.distance.above_floor == 0.75


def test_the_noise_of_two_runs_by_hand() -> None:
    """Repeats of one server are repeats of one another; other floors add up."""

    def of(**facts: Any) -> Provenance:
        return Provenance.of(facts)

    def floor(a: Provenance, b: Provenance, *, calibrated: bool = False) -> float:
        return joint_floor(a, b, calibrated=calibrated, answers=4).tv

    probes = [{"floor": {"largest_tv": tv, "repeats": 5, "flips": 0}} for tv in (0.01, 0.03)]
    march, april = (of(settings={"server": {"wire": "systemone"}}, probe=noise) for noise in probes)
    local = of(settings={"dtype": "float32"})
    assert floor(march, april) == pytest.approx(0.03)
    assert floor(march, local) == pytest.approx(0.01 + noise_floor(local).tv)
    rounded = of(probe=probes[0], rounding={"decimals": 2})
    # Each of four probabilities is off by up to 0.005: a TV of 0.01.
    assert floor(rounded, local) == pytest.approx(0.01 + noise_floor(local).tv + 0.01)
    assert np.isnan(floor(march, april, calibrated=True))
    assert np.isnan(floor(march, of()))


def test_items_without_an_answer_are_left_out_of_both(tmp_path: Path) -> None:
    a = written(tmp_path / "a", [0, None, 1, 2])
    b = written(tmp_path / "b", [0, 0, None, 0])
    result = drift(a, b)
    assert result.pairing.paired
    assert (result.pairing.common, result.pairing.only_a, result.pairing.only_b) == (2, 1, 1)
    assert (result.answers[0].items, result.answers[0].better) == (2, 1)


def test_equal_runs_are_equivalent_and_say_what_changed(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", rows(1, families=120))
    b = write_run(tmp_path / "b", rows(1, families=120).sample(fraction=1, shuffle=True, seed=1))
    edit_run(b, settings={"adapter": {"sha256": "b" * 64}, "base": {"sha256": "c" * 64}})
    edit_run(a, settings={"adapter": {"sha256": "a" * 64}, "base": {"sha256": "c" * 64}})
    text = " ".join(
        run("compare", a, b, "--gate", "--margin", 0.05, "--resamples", 200).stdout.split()
    )
    assert_says(text, "Another adapter", f"{'a' * 12} in A", f"{'b' * 12} in B")
    counts = ("0 better", "0 worse", "0 wrong before and after")
    assert text.startswith("Equivalent: accuracy 0.0 [")
    assert_says(text, "0 of 240 changed", *counts)
    assert measure_drift(a, b, Settings(**FAST)).temperings[0].ratio.value == pytest.approx(1.0)


def test_exit_codes_and_the_number_of_families_that_could_tell(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", rows(1, families=60, skill=2.0))
    worse = write_run(tmp_path / "worse", rows(2, families=60, skill=0.0))
    near = write_run(tmp_path / "near", rows(3, families=60, skill=2.0))
    gate = ("--gate", "--margin", 0.05, "--resamples", 200)
    assert_says(run("compare", a, worse, *gate, code=3).stdout, "beyond", "margin of 5 points")
    value = json.loads(run("compare", a, near, *gate, "--json", code=4).stdout)
    assert value["finding"] == "cannot tell"
    needed = value["accuracy"][0]["test"]["needed"]
    assert needed > 60
    assert value["answer"]["drift"].startswith("Cannot tell")
    short = run("compare", a, near, *gate, code=4).stdout
    assert_says(short, f"about {needed:,} groups", "there are 60")


def test_other_items_have_no_pairs_and_say_where_the_change_is_from(tmp_path: Path) -> None:
    march = write_run(tmp_path / "march", rows(1, families=90, skill=2.0))
    kept = pl.col("kind") != "score"
    april = write_run(tmp_path / "april", other_items(rows(2, families=90, skill=2.0)).filter(kept))
    result = drift(march, april)
    assert not result.pairing.paired
    assert (result.answers, result.distance) == ((), None)
    assert result.mix is not None
    parts = result.mix.mix.value + result.mix.within.value + result.mix.unshared.value
    assert parts == pytest.approx(result.mix.total)
    assert result.mix.total == pytest.approx(result.test.change.value)
    assert not result.mix.same_groups
    gone = {one.group.partition(",")[0] for one in result.mix.groups if not one.rows[1]}
    assert gone == {"score"}
    text = " ".join(
        run("compare", march, april, "--gate", "--margin", 0.5, "--resamples", 200).stdout.split()
    )
    assert_says(text, "kinds and domains of one run")
    assert_says(text, "Changed answers and distances", "same items", "omitted")


def test_gates_of_thresholds_are_checked_on_both_runs(tmp_path: Path) -> None:
    cal, march = simulated(tmp_path / "cal", 1), simulated(tmp_path / "march", 2)
    april = simulated(tmp_path / "april", 3, skill=0.7)
    file = tmp_path / "t.json"
    run("thresholds", cal, "--target-error", 0.1, "--out", file)
    both = ("compare", march, april, "--gate", "--margin", 0.9, file, "--resamples", 200)
    value = json.loads(run(*both, "--json", code=3).stdout)
    (gate,) = value["gates"]
    assert (gate["before"]["verdict"], gate["after"]["verdict"]) == ("holds", "broken")
    # The margin alone would pass; the test of the gate is the binomial one.
    assert value["accuracy"][0]["test"]["finding"] == "equivalent"
    after = gate["after"]
    p = binomtest(after["wrong"], after["drawn"], 0.1, "greater").pvalue
    assert after["p_broken"] == pytest.approx(p)
    assert_says(value["answer"]["drift"], "Changed:", "1 threshold", "on B (all)")
    assert_says(refused("compare", cal, april, *both[3:]), "chosen on 300", "families")


def test_without_references_the_changed_answers_bound_the_change(tmp_path: Path) -> None:
    a = write_run(tmp_path / "a", ablated_rows(1, families=60))
    b = write_run(tmp_path / "b", ablated_rows(2, families=60))
    result = drift(a, b)
    assert result.answers[0].better is None
    assert result.test.change.high == pytest.approx(result.answers[0].changed.high)
    assert result.finding == "cannot tell"
    assert drift(a, a).finding == "cannot tell"  # 0 of 60 may hide 6%
    assert drift(a, a, margin=0.1).finding == "equivalent"
