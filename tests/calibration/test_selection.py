from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from calibration.simulated import (
    by_kind,
    constant,
    contextual,
    items_of,
    simulate,
    unsure,
)
from messages import assert_says

from pact_eval._choices import Mode
from pact_eval._typing import FloatArray
from pact_eval.calibration.fitting import fit_calibrator
from pact_eval.calibration.likelihood import CalibrationItems
from pact_eval.calibration.selection import Candidate, ModeChoice, _why, choose_mode, left_out_nll
from pact_eval.calibration.temperatures import neutral_calibrator
from pact_eval.metrics import nll_nats


def test_held_out_nll_against_direct_computation() -> None:
    items = simulate(120, np.random.default_rng(3), constant(1.6), sources=5)
    nll = np.empty(120)
    for source in np.unique(items.source_family):
        test = items.source_family == source
        fit = fit_calibrator(items.take(~test), mode="per-kind")
        unseen = items.take(test)
        log_probs = fit.calibrator.apply(unseen.log_probs, unseen)
        nll[test] = nll_nats(log_probs, unseen.reference)
    choice = choose_mode(items)
    entry = _entry(choice, "per-kind")
    assert entry.nll == pytest.approx(nll.mean(), abs=1e-9)
    raw = choice.candidates[0]
    assert raw.mode is None
    assert raw.nll == pytest.approx(nll_nats(items.log_probs, items.reference).mean(), abs=1e-12)


def _entry(choice: ModeChoice, mode: Mode) -> Candidate:
    return next(entry for entry in choice.candidates if entry.mode == mode)


def test_the_simplest_form_within_one_standard_error_is_chosen() -> None:
    choice = choose_mode(simulate(226, np.random.default_rng(0), constant(1.6)))
    best = min((c for c in choice.candidates if c.mode), key=lambda entry: entry.nll)
    chosen = _entry(choice, choice.mode)
    assert best.mode == "contextual"
    assert choice.mode == "scalar"
    assert 0 < chosen.excess <= chosen.standard_error
    assert_says(choice.why, "within one standard error", "(contextual with ridge")
    assert choice.nll is not None
    assert choice.nll.falls


@pytest.mark.parametrize("sources", [0, 1])
def test_fewer_than_two_source_families_are_scalar(sources: int) -> None:
    items = simulate(40 * sources, np.random.default_rng(1), constant(1.6), sources=1)
    choice = choose_mode(items)
    assert (choice.mode, choice.ridge) == ("scalar", 0.0)
    assert_says(choice.why, "needs 2 or more", "families, and there are")
    assert choice.candidates == ()


def test_forms_that_cannot_be_fitted_are_left_out_with_the_reason() -> None:
    items = simulate(80, np.random.default_rng(4), constant(1.6), sources=6)
    lengths = np.where(np.arange(80) < 3, np.nan, items.prompt_tokens)
    blind = choose_mode(replace(items, prompt_tokens=lengths))
    (reason,) = blind.left_out
    assert_says(reason, "contextual: ", "prompt length", "3 items")
    assert {entry.mode for entry in blind.candidates} == {None, "scalar", "per-kind"}
    only = choose_mode(
        replace(unsure(0.9, right=6, wrong=4), source_family=np.array(["s1", "s2"] * 5))
    )
    assert len(only.left_out) == 3
    assert_says(only.why, "the only form", "fitted here")


def test_a_form_that_the_items_do_not_determine_is_left_out() -> None:
    """On 30 items of 3 source families auto chose a contextual form whose T fell to 0.001."""
    items = simulate(40, np.random.default_rng(3), constant(1.6), sources=8)
    sure = items.kind == "score"
    right = np.where(sure, items.log_probs.argmax(axis=1), items.reference)
    choice = choose_mode(replace(items, reference=right))
    assert_says(choice.left_out, "per-kind: ", "a bound holds bias_score")
    assert "per-kind" not in {entry.mode for entry in choice.candidates}


@pytest.mark.parametrize("sources", [2, 4])
def test_few_source_families_compare_scalar_with_one_alone(sources: int) -> None:
    items = simulate(200, np.random.default_rng(3), contextual(1.5, -1.0, -2.0), sources=sources)
    choice = choose_mode(items)
    assert choice.mode == "scalar"
    assert [entry.mode for entry in choice.candidates] == [None, "scalar"]
    assert_says(choice.left_out[-1], f"{sources} source families", "too few")


def test_twenty_source_families_are_left_out_one_by_one_and_21_are_dealt_into_ten_folds() -> None:
    for sources, folds in ((20, 20), (21, 10)):
        family = np.array([f"s{number}" for number in range(sources)]).repeat(2)
        items = items_of(np.log(np.tile([0.8, 0.2], (2 * sources, 1))), [0, 1] * sources)
        assert choose_mode(replace(items, source_family=family)).folds == folds


@pytest.mark.parametrize(
    ("sources", "words"), [(6, "; no difference from T = 1 shown"), (12, "; T = 1 is better")]
)
def test_the_best_row_of_a_table_has_the_least_nll(sources: int, words: str) -> None:
    """Probabilities that are right as they are: every fitted temperature does worse than T = 1."""
    items = simulate(10 * sources, np.random.default_rng(0), constant(1.0), sources=sources)
    choice = choose_mode(items, ridges=(4.0,))
    raw, *forms = choice.candidates
    assert raw.nll < min(entry.nll for entry in forms)
    assert (raw.excess, raw.standard_error) == (0, 0)
    assert all(entry.excess == pytest.approx(entry.nll - raw.nll) for entry in forms)
    assert_says(choice.why, words, f"({raw.nll:.4f}, ", " less)")


def test_what_is_as_good_as_raw_does_not_beat_it() -> None:
    """Every fold is right as often as it says, so the fit of the others leaves T at 1."""
    sample = unsure(0.75, right=6, wrong=2)
    items = items_of(np.tile(sample.log_probs, (4, 1)), np.tile(sample.reference, 4))
    choice = choose_mode(replace(items, source_family=np.array(list("abcd")).repeat(8)))
    raw, scalar = choice.candidates[:2]
    assert scalar.nll == pytest.approx(raw.nll, abs=1e-9)
    assert choice.nll is not None
    assert not choice.nll.falls


def held_out(items: CalibrationItems, mode: Mode, ridge: float = 0.0) -> FloatArray:
    """Return the NLL of each item under a fit on the other source families."""
    nll = np.empty(len(items))
    for source in np.unique(items.source_family):
        test = items.source_family == source
        fit = fit_calibrator(items.take(~test), mode=mode, ridge=ridge)
        unseen = items.take(test)
        log_probs = fit.calibrator.apply(
            unseen.log_probs,
            unseen,
        )
        nll[test] = nll_nats(log_probs, unseen.reference)
    return nll


@pytest.mark.parametrize("mode", ["scalar", "per-kind"])
def test_the_nll_of_left_out_families_against_fits_without_them(mode: Mode) -> None:
    items = simulate(120, np.random.default_rng(4), constant(1.6), sources=6)
    nll = left_out_nll(items, mode=mode)
    assert nll is not None
    raw = nll_nats(items.log_probs, items.reference).mean()
    assert (nll.raw, nll.fitted) == pytest.approx((raw, held_out(items, mode).mean()), abs=1e-7)
    assert nll.unit == "source families"
    # Of one source family, its families are left out.
    few = replace(items.take(np.arange(24)), source_family=np.full(24, "s"))
    nll = left_out_nll(few, mode=mode)
    assert nll is not None
    by_family = held_out(replace(few, source_family=few.family), mode).mean()
    assert nll.fitted == pytest.approx(by_family, abs=1e-7)
    assert nll.unit == "families"
    assert left_out_nll(few.take(np.arange(2)), mode=mode) is None


def test_source_families_of_one_family_are_called_families() -> None:
    items = simulate(60, np.random.default_rng(4), constant(1.6), sources=6)
    choice = choose_mode(replace(items, source_family=items.family))
    families = np.unique(items.family).size
    assert choice.nll is not None
    assert (choice.nll.unit, choice.source_families) == ("families", families)
    assert_says(choice.why, f"its NLL on {families} families left out")
    assert "source" not in f"{choice.why} {choice.left_out}"
    three = items.take(np.isin(items.family, np.unique(items.family)[:3]))
    few = choose_mode(replace(three, source_family=three.family))
    assert_says(few.left_out[-1], "3 families are too few")
    one = choose_mode(
        replace(three, source_family=three.family).take(three.family == three.family[0])
    )
    assert_says(one.why, "needs 2 or more families, and there are 1")


def test_excess_and_its_standard_error_by_hand() -> None:
    """Sums of a difference over 5 source families of 10 to 90 items, by the formula."""
    items = simulate(200, np.random.default_rng(3), by_kind(1.3, 2.4, 0.8), sources=5)
    cut = np.array([0, 10, 40, 70, 110, 200])
    names = np.repeat([f"s{number}" for number in range(5)], np.diff(cut))
    items = replace(items, source_family=names)
    choice = choose_mode(items, ridges=(4.0,))
    forms: list[tuple[Mode, float]] = [("scalar", 0.0), ("per-kind", 0.0), ("contextual", 4.0)]
    nll = {mode: held_out(items, mode, ridge) for mode, ridge in forms}
    raw = nll_nats(items.log_probs, items.reference)
    best = min(raw, *nll.values(), key=lambda losses: float(losses.mean()))
    assert [entry.mode for entry in choice.candidates] == [None, *(mode for mode, _ in forms)]
    assert [entry.parameters for entry in choice.candidates] == [0, 1, 3, 3]
    assert [entry.ridge for entry in choice.candidates] == [0.0, 0.0, 0.0, 4.0]
    for entry, losses in zip(choice.candidates, [raw, *nll.values()], strict=True):
        more = losses - best
        sums = [(more[start:end] - more.mean()).sum() for start, end in pairwise(cut)]
        error = math.sqrt(5 / 4 * sum(total**2 for total in sums)) / 200
        assert entry.nll == pytest.approx(losses.mean(), abs=1e-7)
        assert entry.excess == pytest.approx(more.mean(), abs=1e-7)
        assert entry.standard_error == pytest.approx(error, abs=1e-7)
    assert (choice.folds, choice.source_families) == (5, 5)
    assert choice.left_out == ()


def test_of_ridges_that_do_equally_well_the_strongest_is_kept() -> None:
    """Both leave the slopes at 0, to the last digit that is compared."""
    items = simulate(60, np.random.default_rng(5), constant(1.6), sources=5)
    for ridges in ((1e12, 1e13), (1e13, 1e12)):
        contextual_form = _entry(choose_mode(items, ridges=ridges), "contextual")
        assert contextual_form.ridge == 1e13


def test_a_slope_that_is_not_identified_needs_a_ridge() -> None:
    items = simulate(60, np.random.default_rng(6), constant(1.6), sources=6)
    assert fit_calibrator(items, mode="contextual").unidentified
    choice = choose_mode(items, ridges=(0.0, 64.0))
    assert_says(choice.left_out, "contextual: not identified: log_choices, log_tokens")
    assert _entry(choice, "contextual").ridge == 64.0
    alone = choose_mode(items, ridges=())
    assert "contextual" not in {entry.mode for entry in alone.candidates}


def test_forms_need_what_they_depend_on() -> None:
    """One kind has no temperature by kind; one number of answers and one length, no slope."""
    two = unsure(0.8, right=20, wrong=10)
    sources = np.array([f"s{index % 6}" for index in range(30)])
    same = choose_mode(replace(two, source_family=sources), ridges=(16.0,))
    assert [entry.mode for entry in same.candidates] == [None, "scalar"]
    assert_says(same.left_out, "per-kind: ", "one kind", "contextual: neither")
    lengths = np.linspace(200, 900, 30)
    varied = replace(two, source_family=sources, prompt_tokens=lengths)
    assert _entry(choose_mode(varied, ridges=(16.0,)), "contextual").parameters == 2
    lengths[[3, 7]] = np.nan
    blind = choose_mode(replace(varied, prompt_tokens=lengths), ridges=(16.0,))
    assert [entry.mode for entry in blind.candidates] == [None, "scalar"]
    assert_says(blind.left_out, "contextual: the prompt length of 2 items is unknown")


@pytest.mark.parametrize("seed", range(6))
def test_the_choice_follows_from_its_table(seed: int) -> None:
    """The fewest parameters within one standard error of the least NLL; then the least NLL."""
    truth = [constant(1.6), by_kind(1.3, 3.0, 0.7), contextual(1.5, -1.0, -2.0)][seed % 3]
    items = simulate(150, np.random.default_rng(seed), truth, sources=6)
    choice = choose_mode(items, ridges=(4.0, 64.0))
    raw, *forms = choice.candidates
    assert min(entry.excess for entry in choice.candidates) == pytest.approx(0, abs=1e-9)
    assert min(entry.nll for entry in forms) < raw.nll  # so all are compared with a form
    near = [entry for entry in forms if entry.excess <= entry.standard_error + 1e-9]
    fewest = min(entry.parameters for entry in near)
    chosen = min((e for e in near if e.parameters == fewest), key=lambda entry: entry.nll)
    assert (choice.mode, choice.ridge) == (chosen.mode, chosen.ridge)
    assert choice.nll is not None
    assert (choice.nll.raw, choice.nll.fitted) == (raw.nll, chosen.nll)
    assert (choice.nll.unit, choice.nll.clusters) == ("source families", 6)
    assert choice.why.startswith(choice.mode)


@pytest.mark.parametrize(("excess", "shown"), [(0.02, False), (0.03, True)])
def test_a_form_is_called_lower_only_beyond_t_times_the_standard_error(
    excess: float, shown: bool
) -> None:
    """Of ten families, t is 2.262: 0.02 is 2.0 standard errors above the best form, 0.03 is 3.0."""
    best = Candidate("per-kind", 0.0, 3, 0.60, 0.0, 0.0)
    simpler = Candidate("scalar", 0.0, 1, 0.60 + excess, excess, 0.01)
    why = _why(best, [simpler, best], 10, "families")
    assert_says(why, "per-kind", "10 families left out", "more than one standard error", "scalar")
    assert ("no difference shown" in why) != shown


def test_the_error_of_the_fall_by_hand() -> None:
    """The sandwich over left-out clusters, written as a sum."""
    items = simulate(60, np.random.default_rng(3), constant(1.8), sources=10)
    falls, code = items.nll(neutral_calibrator()), np.empty(60, dtype=np.int64)
    for number, source in enumerate(np.unique(items.source_family)):
        test = items.source_family == source
        code[test] = number
        fit = fit_calibrator(items.take(~test), mode="scalar")
        falls[test] -= items.take(test).nll(fit.calibrator)
    squares = [(falls - falls.mean())[code == number].sum() ** 2 for number in range(10)]
    nll = left_out_nll(items, mode="scalar")
    assert nll is not None
    assert nll.raw - nll.fitted == pytest.approx(falls.mean(), rel=1e-6)
    assert nll.standard_error == pytest.approx(np.sqrt(10 / 9 * sum(squares)) / 60, rel=1e-6)


@pytest.mark.slow
def test_helps_is_rarely_said_of_calibrated_runs_and_often_of_others() -> None:
    """At a rate of 5%, more than 7 of 60 draws are false in 1% of such tests."""

    def helps(temperature: float, n: int) -> int:
        drawn = (
            left_out_nll(simulate(n, np.random.default_rng(seed), truth), mode="scalar")
            for seed, truth in enumerate([constant(temperature)] * 60)
        )
        return sum(
            nll is not None and nll.sentence.startswith("Calibrating helps") for nll in drawn
        )

    assert helps(1.0, 100) <= 7
    assert helps(2.0, 300) >= 50
