"""One temperature for each question: against scipy, other forms, and questions that are known."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calibration.simulated import by_kind, constant, simulate
from commands import runner
from messages import assert_says
from scipy import optimize, special
from scipy.stats import binom

from pact_cli.main import main
from pact_eval.api import import_run
from pact_eval.calibration.effect import calibration_effect
from pact_eval.calibration.fitting import best_scalar, fit_calibrator
from pact_eval.calibration.likelihood import FEWEST, CalibrationItems
from pact_eval.calibration.portable import portable_calibration
from pact_eval.calibration.runs import fit_on_run
from pact_eval.calibration.selection import choose_mode, left_out_nll
from pact_eval.calibration.temperatures import (
    Calibrator,
    ItemFacts,
    Weights,
    calibrator_from_json,
    calibrator_sha256,
    calibrator_to_json,
    inverse_softplus,
    neutral_calibrator,
    read_calibrator,
    softplus,
    write_calibrator,
)
from pact_eval.errors import InputError, TamperedError
from pact_eval.evaluation import items as scored_items
from pact_eval.evaluation.items import ScoredItems, read_items
from pact_eval.runs.folder import read_run

ODD = [
    "",
    "all",
    "other questions",
    "(missing)",
    "a\0",
    "a",
    "[b]\u202e</script>",
    "Frage\n2",
    "ж" * 900,
]
calibrate, report = runner(main, "calibrate"), runner(main, "report")


def asked(
    rng: np.random.Generator, sizes: Sequence[int], temperatures: Sequence[float], tag: str = "f"
) -> CalibrationItems:
    """Items of three answers, each a family; those of question q are drawn at its temperature."""
    question = np.repeat(np.arange(len(sizes)), sizes)
    n = question.size
    logits = rng.normal(0, 3, (n, 3))
    truth = special.softmax(logits / np.array(temperatures)[question][:, None], axis=1)
    drawn = (truth.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)
    family = np.array([f"{tag}{number}" for number in range(n)])
    return CalibrationItems(
        log_probs=special.log_softmax(logits, axis=1),
        reference=np.minimum(drawn, 2),
        kind=np.full(n, "choice"),
        n_choices=np.full(n, 3),
        prompt_tokens=np.full(n, 500.0),
        family=family,
        source_family=family,
        decoding="single",
        question=np.array([f"q{number}" for number in question], dtype=object),
    )


def named(items: CalibrationItems, names: Sequence[str]) -> CalibrationItems:
    assert items.question is not None
    question = [names[int(name[1:])] for name in items.question]
    return replace(items, question=np.array(question, dtype=object))


def least_nll(items: CalibrationItems) -> float:
    """Return the T of least NLL by a bounded search of scipy over log T."""

    def nll(log_t: float) -> float:
        cooled = special.log_softmax(items.log_probs / np.exp(log_t), axis=1)
        return -float(cooled[np.arange(len(items)), items.reference].sum())

    found = optimize.minimize_scalar(
        nll, bounds=(math.log(0.05), math.log(20)), method="bounded", options={"xatol": 1e-10}
    )
    return float(np.exp(found.x))


@pytest.mark.parametrize("seed", range(3))
def test_temperatures_against_scipy(seed: int) -> None:
    """Questions of random sizes under odd names; one that is small has that of all items."""
    rng = np.random.default_rng(seed)
    sizes = [*rng.integers(FEWEST, 400, len(ODD) - 1).tolist(), 30]
    items = named(asked(rng, sizes, np.exp(rng.normal(0.3, 0.4, len(ODD))).tolist()), ODD)
    items = items.take(rng.permutation(len(items)))
    fit = fit_calibrator(items, mode="per-question")
    assert items.question is not None
    questions = fit.calibrator.weights.questions
    assert questions is not None
    assert [*questions] == sorted(ODD[:-1])
    at = fit.calibrator.temperatures(items)
    for name in ODD:
        rows = np.array([asked_one == name for asked_one in items.question])
        expected = least_nll(items.take(rows) if name in questions else items)
        assert at[rows] == pytest.approx(np.full(rows.sum(), expected), rel=1e-5)
    assert [level.value for level in fit.levels] == pytest.approx(
        [least_nll(items), *(float(softplus(bias)) for bias in questions.values())], rel=1e-5
    )
    assert fit.nll_after == pytest.approx(float(items.nll(fit.calibrator).mean()))
    assert fit.converged
    assert (fit.calibrator.fit or {})["questions"] == {
        name: items.question.tolist().count(name) for name in sorted(ODD)
    }


def test_questions_that_are_kinds_have_the_temperatures_of_kinds() -> None:
    items = simulate(1_000, np.random.default_rng(5), by_kind(1.3, 2.0, 0.8))
    items = replace(items, question=items.kind.astype(object))
    kinds = fit_calibrator(items, mode="per-kind")
    fit = fit_calibrator(items, mode="per-question")
    assert fit.calibrator.temperatures(items) == pytest.approx(
        kinds.calibrator.temperatures(items), rel=1e-7
    )
    assert fit.nll_after == pytest.approx(kinds.nll_after, abs=1e-12)
    both = [left_out_nll(items, mode=mode) for mode in ("per-kind", "per-question")]
    assert both[0] is not None
    assert both[1] is not None
    assert both[1].fitted == pytest.approx(both[0].fitted, abs=1e-9)


def test_one_question_has_the_temperature_of_all_items_and_interval() -> None:
    items = asked(np.random.default_rng(1), [300], [1.7])
    one, scalar = (fit_calibrator(items, mode=mode) for mode in ("per-question", "scalar"))
    assert (one.calibrator.temperatures(items) == scalar.calibrator.temperatures(items)).all()
    both = one.levels
    assert replace(both[1], name="temperature") == both[0] == scalar.levels[0]
    assert one.notes == scalar.notes == ()


def test_a_thousand_questions_and_few_of_them_large() -> None:
    sizes = [150, 150, *[2] * 998]
    items = asked(np.random.default_rng(2), sizes, [1.5] * 1_000)
    fit = fit_calibrator(items, mode="per-question")
    assert [*(fit.calibrator.weights.questions or {})] == ["q0", "q1"]
    assert len(fit.levels) == 3
    rest = items.take(np.arange(300, len(items)))
    assert set(fit.calibrator.temperatures(rest)) == {float(softplus(fit.parameters[0].value))}
    assert_says(" ".join(fit.notes), "998 questions", "q10, ", "and 994 more")
    groups = calibration_effect(items, fit.calibrator).groups
    assert [(group.name, group.items) for group in groups] == [
        ("all", 2_296), ("question q0", 150), ("question q1", 150), ("other questions", 1_996)
    ]  # fmt: skip


def test_copies_families_and_outcomes_are_counted_not_items() -> None:
    """100 families, five of them wrong and five right, are what a question needs."""
    items = asked(np.random.default_rng(3), [FEWEST, 300], [1.5, 1.5])
    assert items.own_questions() == ("q0", "q1")
    fewer = items.take(np.arange(1, len(items)))
    assert fewer.own_questions() == ("q1",)
    copies = fewer.take(np.r_[np.arange(FEWEST - 1), np.arange(len(fewer))])
    assert copies.own_questions() == ("q1",)
    best = items.log_probs.argmax(axis=1)
    for wrong, own in ((5, True), (4, False)):
        reference = np.where(np.arange(len(items)) < wrong, (best + 1) % 3, best)
        reference[FEWEST:] = items.reference[FEWEST:]
        assert ("q0" in replace(items, reference=reference).own_questions()) == own
    with pytest.raises(InputError, match=r"no question has 100 families.* use --mode scalar"):
        fit_calibrator(items.take(np.arange(50)), mode="per-question")


def test_unknown_questions_are_refused_with_what_helps() -> None:
    items = asked(np.random.default_rng(3), [FEWEST], [1.5])
    calibrator = fit_calibrator(items, mode="per-question").calibrator
    without = replace(items, question=None)
    for refused in (
        lambda: fit_calibrator(without, mode="per-question"),
        lambda: calibrator.temperatures(without),
    ):
        with pytest.raises(InputError, match="need a column question.* or calibrate with another"):
            refused()
    with pytest.raises(InputError, match=r"question: expected shape \(2,\), got \(1,\)"):
        calibrator.temperatures(ItemFacts(["choice"] * 2, [3, 3], question=["q0"]))


def test_a_question_that_the_fit_has_not_seen_has_the_temperature_of_all_and_a_note() -> None:
    rng = np.random.default_rng(4)
    items = asked(rng, [200, 200, 20], [1.0, 3.0, 1.5])
    fit = fit_calibrator(items, mode="per-question")
    new = named(asked(rng, [30, 20, 10, 5], [1.0] * 4), ["q1", "q2", "new", "neu"])
    at = fit.calibrator.temperatures(new)
    assert (at[30:] == float(softplus(fit.parameters[0].value))).all()
    (note,) = calibration_effect(new, fit.calibrator).notes
    assert (note.kind, note.numbers) == ("UnseenQuestion", {"items": 15, "questions": 2})
    assert_says(str(note), "15 of 65 items", "(neu, new)")
    assert calibration_effect(items, fit.calibrator).notes == ()


def test_files_come_back_and_what_is_wrong_in_them_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    names = {name: float(at) for at, name in enumerate(ODD)}
    written = Calibrator("per-question", Weights((0.5,) * 3, questions=names), {"items": 3})
    write_calibrator(path, written)
    assert read_calibrator(path) == written
    edited = json.loads(path.read_text("utf-8"))
    assert [*edited["weights"]] == ["bias", "log_choices", "log_tokens", "questions"]
    edited["weights"]["questions"]["a"] = 0.1
    with pytest.raises(TamperedError):
        calibrator_from_json(edited)
    del edited["weights"]["questions"]
    with pytest.raises(TamperedError):
        calibrator_from_json(edited)
    for questions in (None, {"a": np.nan}):
        with pytest.raises(InputError):
            Calibrator("per-question", Weights((0.5,) * 3, questions=questions))
    with pytest.raises(InputError, match="expected no questions with mode scalar"):
        Calibrator("scalar", Weights((0.5,) * 3, questions={}))


def test_files_of_other_forms_are_those_of_earlier_versions() -> None:
    """The hashes that versions without per-question calibrators wrote."""
    assert calibrator_sha256(neutral_calibrator("scalar"))[:16] == "053bd9342b8cbdc8"
    assert calibrator_sha256(neutral_calibrator("per-kind"))[:16] == "873bf1a45b6c632d"
    slopes = Calibrator("contextual", Weights((1.0, 2.0, 3.0), 0.5, -0.25), {"a": 1})
    assert calibrator_sha256(slopes)[:16] == "ef511a41e25003c9"
    neutral = neutral_calibrator("per-question")
    assert neutral.is_neutral
    assert calibrator_from_json(calibrator_to_json(neutral)) == neutral
    hot = Calibrator("per-question", replace(neutral.weights, questions={"a": 1.0}))
    assert not hot.is_neutral


def test_auto_compares_it_for_several_questions_only() -> None:
    """Without several questions, the choice is the one of before, to the last bit."""
    items = asked(np.random.default_rng(6), [250, 250], [0.8, 3.0])
    choice = choose_mode(items)
    assert choice.mode == "per-question"
    entry = next(entry for entry in choice.candidates if entry.mode == "per-question")
    assert entry.parameters == 2
    fitted = left_out_nll(items, mode="per-question")
    assert fitted is not None
    assert fitted.fitted == pytest.approx(entry.nll)
    unnamed = choose_mode(replace(items, question=None))
    assert unnamed.mode == "scalar"
    assert choose_mode(replace(items, question=items.family.astype(object))) == unnamed
    assert choose_mode(replace(items, question=np.full(len(items), "q", object))) == unnamed
    small = items.take(np.r_[0:90, 250:340])
    assert_says(choose_mode(small).left_out, "per-question: no question has 100 families")


def test_a_question_at_chance_does_not_rule_the_form_out() -> None:
    """Of one question, answers are drawn at random: the least NLL is at the upper bound."""
    rng = np.random.default_rng(7)
    items = asked(rng, [250, 250], [1.0, 1.0])
    reference = np.where(np.arange(500) < 250, items.reference, rng.integers(0, 3, 500))
    guessed = replace(items, reference=reference)
    assert choose_mode(guessed).mode == "per-question"
    fit = fit_calibrator(guessed, mode="per-question")
    assert fit.at_bound == ("bias_q1",)
    assert_says(" ".join(fit.notes), "q1: T reached its upper bound, 20")


def held_out(seed: int, sizes: Sequence[int], spread: float) -> tuple[float, float, str, bool]:
    """Return NLL less that of a scalar on new items, the chosen form, and whether one differs."""
    rng = np.random.default_rng(seed)
    even = rng.permutation(np.linspace(-1.5, 1.5, len(sizes)))
    at = (1.5 * np.exp(spread * even)).tolist()
    items = asked(rng, sizes, at)
    new = asked(rng, [5 * size for size in sizes], at, "new")
    fit = fit_calibrator(items, mode="per-question")
    mode = choose_mode(items, ridges=()).mode
    scalar = float(new.nll(best_scalar(items)).mean())
    change = float(new.nll(fit.calibrator).mean()) - scalar
    chosen = change if mode == "per-question" else 0.0
    return change, chosen, mode, "no question" not in fit.notes[0]


def check_null_and_planted(draws: int, sizes: Sequence[int]) -> None:
    null = [held_out(seed, sizes, 0.0) for seed in range(draws)]
    # 1 / (2 F) nats per item for each question of F families; twice that of the T of all.
    expected = len(sizes) / sum(sizes)
    assert np.mean([change for change, *_ in null]) < expected
    assert np.mean([chosen for _, chosen, *_ in null]) < 0.1 * expected
    assert sum(mode == "per-question" for *_, mode, _ in null) <= binom.ppf(0.999, draws, 0.05)
    assert sum(said for *_, said in null) <= binom.ppf(0.999, draws, 0.05)
    planted = [held_out(seed, sizes, 0.5) for seed in range(draws)]
    assert np.mean([change for change, *_ in planted]) < -expected
    assert np.mean([chosen for _, chosen, *_ in planted]) < -expected
    assert np.mean([said for *_, said in planted]) > 0.7


def test_new_items_lose_little_if_questions_are_alike_and_gain_if_they_differ() -> None:
    check_null_and_planted(2, [200, 200])


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[200] * 3, [800, 150, 120, 40, 10], [110] * 10])
def test_new_items_of_many_draws(sizes: list[int]) -> None:
    check_null_and_planted(24, sizes)


@pytest.mark.slow
@pytest.mark.parametrize("questions", [2, 5])
def test_questions_in_common_families_are_rarely_said_to_differ(questions: int) -> None:
    """Each family asks every question, and its answers are alike: 5% of 200 null draws at most."""
    said = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        items = asked(rng, [150] * questions, [1.5] * questions)
        luck = rng.random(150)
        cumulated = np.exp(items.log_probs / 1.5)
        cumulated = (cumulated / cumulated.sum(axis=1, keepdims=True)).cumsum(axis=1)
        drawn = np.minimum((cumulated < np.tile(luck, questions)[:, None]).sum(axis=1), 2)
        family = items.family[np.tile(np.arange(150), questions)]
        alike = replace(items, reference=drawn, family=family, source_family=family)
        said += "no question" not in fit_calibrator(alike, mode="per-question").notes[0]
    assert said <= binom.ppf(0.999, 200, 0.05)


@pytest.mark.parametrize("hot", ["spam", "tone"])
def test_the_planted_question_is_named(hot: str) -> None:
    names = ["refund", "spam", "tone"]
    at = [3.0 if name == hot else 1.0 for name in names]
    items = named(asked(np.random.default_rng(8), [300] * 3, at), names)
    fit = fit_calibrator(items, mode="per-question")
    value = next(level.value for level in fit.levels if level.name == f"temperature_{hot}")
    assert_says(fit.notes[0], f"temperature of {hot} differs most: {value:.3f}", "p < 0.001")
    two = fit_calibrator(items.take(np.arange(300, 900)), mode="per-question").notes[0]
    assert re.match(f"the temperatures of (spam and tone|tone and spam) differ: .*{value:.3f}", two)
    alike = named(asked(np.random.default_rng(8), [300] * 3, [1.5] * 3), names)
    assert_says(fit_calibrator(alike, mode="per-question").notes[0], "no question", "shown")


def test_transformers_get_temperatures_by_kind_and_what_they_lose() -> None:
    items = asked(np.random.default_rng(9), [200, 200], [1.0, 3.0])
    fit = fit_calibrator(items, mode="per-question")
    portable = portable_calibration(items, fit.calibrator)
    assert portable.lost == ("the question",)
    assert portable.temperatures["choice"] == pytest.approx(least_nll(items), rel=1e-5)
    with pytest.raises(InputError, match=r"c.json: .*depends on the question; .* --mode per-kind"):
        fit.calibrator.by_type("c.json: ")


def log(path: Path, seed: int, requests: int, more: Sequence[str] = ()) -> Path:
    """A log whose question `spam` is far too sure; every tenth request has no answer to it."""
    rng = np.random.default_rng(seed)
    lines = []
    for number in range(requests):
        asks = {"spam": 3.0, "refund": 1.0, **dict.fromkeys(more, 1.0)}
        logit = {name: rng.normal(0, 3) for name in asks}
        label = {
            name: bool(rng.random() < special.expit(logit[name] / at)) for name, at in asks.items()
        }
        answers = {name: {"noul": float(special.expit(logit[name]))} for name in asks}
        if number % 10 == 0:
            del answers["spam"]
        request: dict[str, Any] = {
            "model": "m", "state": f"mail {seed} {number}",
            "questions": {name: {"type": "noul", "instructions": f"{name}?"} for name in asks},
        }  # fmt: skip
        lines.append({
            "id": f"{seed}-{number}", "label": label, "request": request,
            "response": {"model": "m", "answers": answers},
        })  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("runs")
    for seed, name in enumerate(("january", "february")):
        import_run(log(home / f"{name}.jsonl", seed, 300, ODD[6:8] * seed), home / name)
    calibrate(home / "january", "--holdout", home / "february")
    return {name: home / name for name in ("january", "february")}


def test_a_log_is_calibrated_and_reported_by_question(
    runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Probabilities of a report are those of the log, divided by hand, read whole or in slices."""
    calibrator = read_calibrator(runs["february"] / "calibration.json")
    assert calibrator.mode == "per-question"
    at = {
        name: float(softplus(bias)) for name, bias in (calibrator.weights.questions or {}).items()
    }
    assert [*at] == ["refund", "spam"]
    assert at["spam"] > 2 * at["refund"]
    views = read_run(runs["february"]).predictions
    question = [name.split("/", 1)[1] for name in views.ids]
    shared = float(softplus(calibrator.weights.bias[0]))
    t = np.array([at.get(name, shared) for name in question])
    expected = special.softmax(views.logits[:, 0] / t[:, None], axis=1).max(axis=1)
    whole = ScoredItems.of(views, "single", calibrator)
    assert whole.confidence == pytest.approx(expected, abs=1e-12)
    monkeypatch.setattr(scored_items, "_SLICE_ROWS", 50)
    path = runs["february"] / "predictions.parquet"
    assert (read_items(path, "single", calibrator=calibrator).confidence == whole.confidence).all()
    shown = json.loads(report(runs["february"], "--calibration", "own", "--json").stdout)
    assert "UnseenQuestion" in {warning["kind"] for warning in shown["warnings"]}


def test_terminal_file_and_json_have_one_sentence(runs: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "c.json"
    flags = ("--mode", "per-question", "--out", out)
    text = calibrate(runs["january"], *flags, "--full").stdout
    sentence = json.loads(out.read_text("utf-8"))["fit"]["notes"][0]
    assert_says(sentence, "the temperatures of", "differ: ")
    plain = " ".join(text.split())
    assert plain.count(sentence) >= 2
    shown = json.loads(calibrate(runs["january"], *flags, "--json").stdout)["result"]
    assert shown["fit"]["notes"][0] == sentence
    assert [*shown["calibrator"]["weights"]["questions"]] == ["refund", "spam"]
    rows = [line for line in text.splitlines() if "temperature_" in line]
    assert [row.split()[1] for row in rows] == ["temperature_refund", "temperature_spam"]


def test_runs_without_questions_are_refused(runs: dict[str, Path], tmp_path: Path) -> None:
    rows = "".join(
        json.dumps({"id": f"n{number}", "probabilities": {"a": 0.7, "b": 0.3}, "label": "a"}) + "\n"
        for number in range(20)
    )
    (tmp_path / "none.jsonl").write_text(rows, "utf-8")
    import_run(tmp_path / "none.jsonl", tmp_path / "none")
    own = runs["january"] / "calibration.json"
    for refused in (
        report(tmp_path / "none", "--calibration", own, code=1),
        calibrate(tmp_path / "none", "--mode", "per-question", code=1),
    ):
        assert_says(refused.stderr, "need a column question", "another --mode")


def test_a_fit_on_a_run_in_other_order_is_the_same(runs: dict[str, Path]) -> None:
    fitted = fit_on_run(runs["january"], mode="per-question", decoding="single")
    shuffled = fitted.items.take(np.random.default_rng(0).permutation(len(fitted.items)))
    again = fit_calibrator(shuffled, mode="per-question").calibrator
    assert [*(again.weights.questions or {}).values()] == pytest.approx(
        [*(fitted.calibrator.weights.questions or {}).values()], rel=1e-10
    )
    assert inverse_softplus(fitted.fit.levels[0].value) == pytest.approx(again.weights.bias[0])


def test_a_scalar_truth_is_found_for_every_question() -> None:
    items = simulate(6_000, np.random.default_rng(8), constant(1.6))
    items = replace(items, question=(np.arange(6_000) % 3).astype(str).astype(object))
    for level in fit_calibrator(items, mode="per-question").levels:
        assert abs(level.value - 1.6) < 4 * level.by_family.standard_error
