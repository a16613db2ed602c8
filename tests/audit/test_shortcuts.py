"""A bag of words finds what a dataset was made to leak, and nothing where there is nothing."""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.stats
from builders import question, record, write_jsonl
from messages import assert_says

from pact_eval.audit import shortcuts
from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.audit.shortcuts import AnswerWords, Probe, Shortcuts, check_shortcuts
from pact_eval.audit.shortcuts import _found as found_text
from pact_eval.audit.shortcuts import _most_frequent as most_frequent
from pact_eval.audit.shortcuts import _most_telling as most_telling
from pact_eval.audit.shortcuts import _share as share_of
from pact_eval.audit.shortcuts import _verdict as verdict
from pact_eval.data.files import DataFile
from pact_eval.data.index import index_of_records
from pact_eval.stats.estimate import Estimate
from pact_fixtures.generator.dataset import generate_dataset

Rows = list[dict[str, Any]]
QUESTION, ABLATED, FULL = range(3)


def check(path: Path, rows: Iterable[Any], seed: int = 7, **settings: int) -> CheckResult:
    """Write the rows to two files, so that a finding names both, and check them."""
    every = list(rows)
    files = []
    for name, part in (("train.jsonl", every[:-2]), ("eval.jsonl", every[-2:])):
        files.append(DataFile(name, "train", write_jsonl(path / name, part)))
    rng = np.random.default_rng(seed)
    return check_shortcuts(index_of_records(files), Collector("shortcuts", 5), rng=rng, **settings)


def probes(result: CheckResult) -> tuple[Probe, ...]:
    assert isinstance(result.measured, Shortcuts)
    return result.measured.probes


@functools.cache
def _generated(seed: int) -> str:
    dataset = generate_dataset("small", seed=seed)
    return json.dumps(dataset.train + dataset.holdout)


def generated(seed: int = 17) -> Rows:
    rows: Rows = json.loads(_generated(seed))
    return rows


def pairs(rows: Rows) -> Iterable[tuple[dict[str, Any], dict[str, Any]]]:
    return zip(rows[::2], rows[1::2], strict=True)


def singles(rows: Rows) -> Rows:
    """One member of every pair, base and counterfactual by turns."""
    return [pair[number % 2] for number, pair in enumerate(pairs(rows))]


def decision(row: dict[str, Any]) -> dict[str, Any]:
    value: dict[str, Any] = row["input"]["questions"]["decision"]
    return value


def keys(row: dict[str, Any]) -> list[str]:
    if decision(row)["type"] == "noul":
        return ["false", "true"]
    criteria = decision(row)["criteria"]
    return list(criteria) if isinstance(criteria, dict) else [str(n) for n in range(len(criteria))]


def reference(row: dict[str, Any]) -> int:
    return keys(row).index(json.dumps(row["reference"]["target"]).strip('"'))


def set_reference(row: dict[str, Any], index: int) -> None:
    kind = decision(row)["type"]
    target: Any = keys(row)[index] if kind == "choice" else index
    row["reference"]["target"] = bool(index) if kind == "noul" else target


def say(row: dict[str, Any], sentence: str) -> None:
    """Add a sentence to the context, whatever its form."""
    state = row["input"]["state"]
    if isinstance(state, str):
        row["input"]["state"] = f"{state} {sentence}"
    else:
        turns = state["entries"] if isinstance(state, dict) else state
        turns.append({"speaker": "Clerk", "text": sentence})


def describe(row: dict[str, Any], index: int, more: str) -> None:
    """Add to the description of one answer, for questions that have descriptions."""
    criteria = decision(row).get("criteria")
    if criteria:
        key = list(criteria)[index] if isinstance(criteria, dict) else index
        criteria[key] = f"{criteria[key] or 'A step.'} {more}"


# against what the data were made to be


@pytest.mark.slow
def test_the_full_generated_dataset_does_not_leak(tmp_path: Path) -> None:
    """With another seed than in the test of all checks."""
    dataset = generate_dataset("full", seed=3)
    result = check(tmp_path, dataset.train + dataset.holdout)
    assert not result.counts
    assert result.scope == "3,000 records of 40 source families"
    of_question, ablated, full = probes(result)
    for probe in (of_question, ablated):
        assert probe.ceiling == pytest.approx(0.5, abs=0.001)
        assert probe.gain.low < 0.02
        assert -0.1 < probe.gain.value < 0.1
    assert full.ceiling == 1
    assert full.gain.value > 0.2


def question_names_the_answers(rows: Rows) -> Rows:
    for pair in pairs(rows):
        if decision(pair[0])["type"] == "choice":
            told = " or ".join(sorted(keys(row)[reference(row)] for row in pair))
            for row in pair:
                decision(row)["instructions"] += f" Say {told}."
    return rows


def question_word_tells_the_pair(rows: Rows) -> Rows:
    for pair in pairs(rows):
        at = min(map(reference, pair))
        for row in pair:
            word = ("amber", "basil", "cedar", "dill", "elder")[at]
            decision(row)["instructions"] += f" Use the {word} form."
    return rows


def context_keeps_the_key(rows: Rows) -> Rows:
    for row in rows:
        say(row, f"The clerk expects {keys(row)[reference(row)]}.")
    return rows


def context_keeps_a_code(rows: Rows) -> Rows:
    for row in rows:
        say(row, f"Put it on the {('amber', 'basil', 'cedar')[min(2, reference(row))]} pile.")
    return rows


def filler_tells_the_answer_of_single_records(rows: Rows) -> Rows:
    rows = [row for row in singles(rows) if decision(row)["type"] == "noul"]
    for row in rows:
        say(row, "The zebra sleeps." if reference(row) else "The giraffe sleeps.")
    return rows


def references_have_a_word_in_their_description(rows: Rows) -> Rows:
    for row in (rows := singles(rows)):
        describe(row, reference(row), "Indeed.")
    return rows


def references_have_the_longest_description(rows: Rows) -> Rows:
    filler = ("at", "the", "office", "of", "this", "desk", "now", "then", "with", "a", "stamp")
    for number, row in enumerate(rows := singles(rows)):
        words = (filler[(number * step) % len(filler)] for step in range(1, 10))
        describe(row, reference(row), " ".join(words))
    return rows


LEAKS: list[tuple[Callable[[Rows], Rows], str, str]] = [
    (question_names_the_answers, "question-shortcut",
     "the answer's key more often than others in the question"),
    (question_word_tells_the_pair, "question-shortcut", '"basil" in the question'),
    (context_keeps_the_key, "ablated-shortcut", "the answer's key in the ablated context"),
    (context_keeps_a_code, "ablated-shortcut", '"basil" in the ablated context'),
    (filler_tells_the_answer_of_single_records, "ablated-shortcut",
     '"zebra" in the ablated context'),
    (references_have_a_word_in_their_description, "question-shortcut", '"indeed" in the answer'),
    (references_have_the_longest_description, "question-shortcut", "the longest answer"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("leak", "code", "clue"), LEAKS)
def test_a_dataset_made_to_leak_is_caught(
    leak: Callable[[Rows], Rows], code: str, clue: str, tmp_path: Path
) -> None:
    result = check(tmp_path, leak(generated()))
    finding_of = {finding.code: finding for finding in result.findings}
    assert clue in finding_of[code].actual
    assert str(finding_of[code].place) == "train.jsonl, eval.jsonl"
    assert finding_of[code].severity == "error"
    # What stands in the context alone is no leak of the question.
    assert (code == "ablated-shortcut") == ("question-shortcut" not in finding_of)


def test_a_word_that_tells_three_records_in_ten_is_found(tmp_path: Path) -> None:
    rows = [row for number, row in enumerate(generated()) if number // 2 % 3 == 0]
    for number, row in enumerate(rows):
        if number % 20 < 6:
            say(row, f"Tag {('amber', 'basil', 'cedar')[min(2, reference(row))]}.")
    result = check(tmp_path, rows)
    assert set(result.counts) & {"ablated-shortcut", "shortcut-suspected"}
    assert any(clue.startswith('"basil" in ') for clue in probes(result)[ABLATED].telling)


def test_a_position_is_the_majority_and_no_shortcut(tmp_path: Path) -> None:
    """The check of the balance finds it; no text tells more than that position."""
    rows = [row for row in singles(generated()) if decision(row)["type"] != "noul"]
    for row in rows:
        set_reference(row, 0)
    result = check(tmp_path, rows)
    assert not result.counts
    for probe in probes(result):
        assert probe.majority == probe.ceiling == 1
        assert_says(probe.reason, "no function", "beats the baseline")


# against shuffled references


def shuffled(seed: int, n_families: int, n_pairs: int, *, paired: bool) -> Rows:
    """Pairs of some source families with references drawn at random, two different ones a pair."""
    rng = np.random.default_rng(seed)
    by_family: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for pair in pairs(generated()):
        by_family.setdefault(pair[0]["source_family"], []).append(pair)
    chosen = rng.choice(sorted(by_family), n_families, replace=False)
    rows: Rows = []
    for pair in itertools.chain.from_iterable(by_family[name][:n_pairs] for name in chosen):
        drawn = rng.permutation(len(keys(pair[0])))[:2]
        for row, index in zip(pair, drawn, strict=True):
            set_reference(row, int(index))
        rows += pair if paired else pair[:1]
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("paired", [True, False])
def test_shuffled_references_are_no_leak(paired: bool, tmp_path: Path) -> None:
    """24 datasets of 4 to 18 source families, 48 probes: no error, hardly a warning."""
    counts: dict[str, int] = {}
    gains = []
    for seed in range(12):
        n_families = (4, 6, 9, 18)[seed % 4]
        rows = shuffled(seed, n_families, 20, paired=paired)
        result = check(tmp_path, rows)
        gains += [probe.gain.value for probe in probes(result)[:FULL]]
        for code, n in result.counts.items():
            counts[code] = counts.get(code, 0) + n
    assert set(counts) <= {"shortcut-suspected"}
    assert sum(counts.values()) <= 2
    assert np.mean(gains) < 0.02


# against hand computation


def question_record(
    number: int, source_family: str, text: Any, target: bool, **changes: Any
) -> Any:
    return record(
        f"r{number}-base",
        source_family=source_family,
        decision=question("noul", instructions=text),
        reference={"target": target},
        **changes,
    )


def test_ceiling_and_majority_against_hand_computation(tmp_path: Path) -> None:
    """A tells false three times of four; by it, B is right twice of five, and by B, A once."""
    told = {"A": [("x", False), ("x", False), ("y", False), ("y", True)],
            "B": [("x", True), ("x", True), ("y", True), ("y", False), ("y", False)]}  # fmt: skip
    rows = [
        question_record(number, family, text, target)
        for number, (family, (text, target)) in enumerate(
            (family, answer) for family, some in told.items() for answer in some
        )
    ]
    probe = probes(check(tmp_path, rows))[QUESTION]
    assert probe.majority == pytest.approx((2 + 1) / 9)
    assert probe.chance == probe.baseline == 0.5
    # Of the four "x" two are false and two true, of the five "y" three are false.
    assert probe.ceiling == pytest.approx((2 + 3) / 9)
    assert probe.difference.value == pytest.approx(probe.accuracy.value - 0.5)
    assert probe.gain.value == pytest.approx((probe.accuracy.value - 0.5) / (5 / 9 - 0.5))
    assert (probe.gain.n, probe.gain.clusters) == (9, 2)


def test_the_scale_against_hand_computation(tmp_path: Path) -> None:
    """A word tells nine in ten of the references, and twenty true ones have no such word."""
    rows: Rows = []
    for family, number in itertools.product("ABCD", range(30)):
        text, target = f"Nr {family}{number}", True
        if number < 25:
            target = number % 5 < 3
            text += " plus" if target != (number % 5 == 0) else " minus"
        rows.append(question_record(len(rows), family, text, target))
    probe = probes(check(tmp_path, rows))[QUESTION]
    # In each family 5 of 25 words lie; the 15 + 5 true references of 30 are the majority.
    assert probe.baseline == probe.majority == pytest.approx(20 / 30)
    assert probe.ceiling == 1
    assert probe.accuracy.value == pytest.approx(25 / 30)
    assert probe.gain.value == pytest.approx((25 - 20) / (30 - 20))
    assert math.isnan(probe.accuracy.low)
    assert "all families agree" in (probe.accuracy.reason or "")
    assert probe.telling[0] in ('"plus" in the question', '"minus" in the question')


def test_members_of_a_pair_share_their_ceiling(tmp_path: Path) -> None:
    rows = []
    for number, family in enumerate("ABCD" * 3):
        for variant, target in (("base", "answer_0"), ("counterfactual", "answer_2")):
            rows.append(
                record(
                    f"f{number}-{variant}",
                    source_family=family,
                    decision=question("choice", 4, instructions=f"Which one? {number}"),
                    reference={"target": target},
                )
            )
    probe = probes(check(tmp_path, rows))[QUESTION]
    assert (probe.chance, probe.ceiling) == (0.25, 0.5)


# undefined is loud


def test_one_source_family_is_undefined(tmp_path: Path) -> None:
    rows = [row | {"source_family": "only"} for row in context_keeps_the_key(generated())]
    result = check(tmp_path, rows)
    assert set(result.counts) == {"answer-in-context"}  # which learns from no other
    assert result.skipped == "one source"
    for probe in probes(result):
        assert_says(probe.reason, "one source family", "no other to learn from")
        assert all(math.isnan(estimate.value) for estimate in (probe.accuracy, probe.gain))
        assert math.isnan(probe.baseline)


@pytest.mark.slow
def test_records_without_a_usable_certificate_are_counted(tmp_path: Path) -> None:
    rows = generated()
    for row in rows:
        del row["evidence_certificate"]
    result = check(tmp_path, rows)
    assert_says(probes(result)[ABLATED].reason, "no record", "usable certificate")
    assert probes(result)[QUESTION].reason is None
    assert result.measured.not_ablated == len(rows)

    rows = generated()
    del rows[0]["evidence_certificate"]
    rows[1]["evidence_certificate"]["verified_pair"]["left"] = "Stands nowhere."
    rows[1]["evidence_certificate"]["verified_pair"]["negative_left"] = "Stands nowhere."
    rows[2]["evidence_certificate"]["spec"] = None
    result = check(tmp_path, rows)
    assert result.measured.not_ablated == 3
    assert probes(result)[ABLATED].accuracy.n == len(rows) - 3
    assert_says(result.scope, "444 records", "18 source families", "3 without ablation")


def test_pairs_of_booleans_have_nothing_that_a_shared_text_can_tell(tmp_path: Path) -> None:
    rows = [row for row in generated() if decision(row)["type"] == "noul"]
    result = check(tmp_path, rows)
    assert not result.counts
    for probe in probes(result)[:FULL]:
        assert probe.accuracy.value == probe.baseline == probe.ceiling == 0.5
        assert math.isnan(probe.gain.value)
        assert_says(probe.reason, "no function", "beats the baseline")
    assert probes(result)[FULL].reason is None


# randomness is an argument


@pytest.mark.slow
def test_the_same_generator_gives_the_same_result(tmp_path: Path) -> None:
    first, again = (check(tmp_path, generated(), max_records=200) for _ in range(2))
    assert first.measured == again.measured
    other = check(tmp_path, generated(), seed=8, max_records=200)
    assert other.measured != first.measured


def test_a_sample_keeps_families_whole_and_every_source_family(tmp_path: Path) -> None:
    result = check(tmp_path, generated(), max_records=61)
    measured = result.measured
    assert (measured.records, measured.records_in_all, measured.source_families) == (60, 444, 18)
    assert probes(result)[QUESTION].ceiling == 0.5
    assert_says(result.scope, "60 records", "18 source families", "drawn from 444")


# hostile texts


STRANGE: Sequence[Any] = (
    "", "\u2028", "…!?", {}, [], 0, False, {"": None}, "a\u2028b\u2029c\x85d", "x" * 10_000,
    {"deep": [[[[{"er": ["\u0000", 1.5, True]}]]]]}, "\u0130\u1e9e\ufb01", "是的，请付款。",
)  # fmt: skip


def test_strange_texts_are_read(tmp_path: Path) -> None:
    rows = [
        question_record(number, "AB"[number % 2], text, number % 3 == 0, state=state)
        for number, (text, state) in enumerate(itertools.product(STRANGE, STRANGE))
    ]
    result = check(tmp_path, rows)
    assert [probe.accuracy.n for probe in probes(result)] == [169, 0, 169]
    long = [clue for probe in probes(result) for clue in probe.telling if len(clue) > 100]
    assert not long


def test_records_without_any_word_are_read(tmp_path: Path) -> None:
    criteria = {"!": None, "?": None, "…": ""}
    rows = [
        record(
            f"r{number}-base",
            source_family="ABC"[number % 3],
            state="",
            decision=question(criteria=criteria, instructions="?"),
            reference={"target": "!?…"[number // 3 % 3]},
        )
        for number in range(18)
    ]
    probe = probes(check(tmp_path, rows))[QUESTION]
    assert_says(probe.reason, "no function", "beats the baseline")


def test_a_number_inside_a_question_tells(tmp_path: Path) -> None:
    rows = [
        question_record(
            number, "ABCD"[number % 4], {"ask": "Is it?", "seen": [number // 4 % 2]}, number % 8 > 3
        )
        for number in range(64)
    ]
    result = check(tmp_path, rows)
    assert set(result.counts) == {"question-shortcut"}
    assert '"1" in the question' in result.findings[0].actual


# the parts of a probe


def test_majorities_against_hand_computation() -> None:
    groups = ["a", "a", "a", "b", "b", "c", "a"]
    answers = np.array([2, 2, 1, 1, 0, 1, 1])
    counted = np.array([True, True, True, True, True, False, False])
    assert most_frequent(groups, answers, counted).tolist() == [2, 2, 2, 0, 0, 0, 2]
    everything = np.ones(7, dtype=bool)
    assert most_frequent(groups, answers, everything).tolist() == [1, 1, 1, 0, 0, 1, 1]


def test_telling_clues_against_hand_computation() -> None:
    """Four words and two other clues; what is crossed with several answers is added up."""
    names = ['"a"', '"b"', "x", '"a"', '"c"', "y", "z", '"d"', '"e"', '"f"', "w"]
    raised = np.array([1.0, 5.0, 4.5, 2.0, -1.0, 0.5, 6.0, 0.25, 0.1, 0.0, 0.3])
    assert most_telling(names, raised) == ("z", '"b"', "x", '"a"', '"d"', '"e"')
    assert most_telling(['"a"', '"b"'], np.array([0.0, -1.0])) == ()
    assert most_telling([f'"{n}"' for n in range(6)], np.arange(1.0, 7)) == (
        '"5"', '"4"', '"3"', '"2"'
    )  # fmt: skip


def test_shares_against_hand_computation() -> None:
    """Three of eight, in two source families; nothing to reach is undefined."""
    hit, of, family = np.array([1.0, 1, 0, 1]), np.array([4.0, 2, 1, 1]), np.array([0, 0, 1, 1])
    share = share_of(hit, of, family)
    assert (share.value, share.n, share.clusters) == (3 / 8, 4, 2)
    assert share.low < share.value < share.high
    nothing = share_of(hit, np.array([1.0, -1, 0, 0]), family)
    assert math.isnan(nothing.value)
    assert (nothing.n, nothing.clusters) == (4, 2)


@pytest.mark.parametrize(
    ("low", "families", "points", "code"),
    [
        (0.10, 4, 0.2, "shortcut-suspected"),
        (0.1001, 4, 0.2, "question-shortcut"),
        (0.1001, 3, 0.2, "shortcut-suspected"),
        (0.0, 4, 0.2, None),
        (0.001, 1, 0.2, "shortcut-suspected"),
        (0.2, 4, 0.01, "question-shortcut"),
        (0.2, 4, 0.0099, None),
        (0.2, 4, math.nan, None),
        (math.nan, 4, 0.2, "question-shortcut"),
        (math.nan, 2, 0.2, "shortcut-suspected"),
        (math.nan, 1, 0.2, None),
    ],
)
def test_every_boundary_of_a_finding(
    low: float, families: int, points: float, code: str | None
) -> None:
    gain = Estimate(0.5, low, 0.7, 100, families)
    difference = Estimate(points, 0.1, 0.3, 100, families)
    probe = Probe("question", gain, 0.3, 0.4, 0.7, difference, gain, ())
    assert verdict(probe) == code
    assert probe.baseline == 0.4
    assert (probe.reason is None) == (not math.isnan(gain.value))


def test_the_scope_counts_what_was_read() -> None:
    counted = "1,000 records of 2 source families"
    assert Shortcuts((), 1_000, 1_000, 2, 0).scope == counted
    sampled = Shortcuts((), 1_000, 2_000, 2, 30).scope
    assert sampled.startswith(f"{counted}, ")
    assert_says(sampled, "drawn from 2,000; ", "30 without ablation")


@pytest.mark.parametrize(
    ("most", "most_bytes", "n_families"),
    [(8, 80, 4), (7, 80, 3), (4, 80, 2), (3, 80, 1), (1, 80, 0), (8, 79, 3), (8, 40, 2), (8, 0, 0)],
)
def test_samples_against_hand_computation(
    most: int, most_bytes: int, n_families: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four families of two records of ten bytes each, of two source families."""
    monkeypatch.setattr(shortcuts, "_MOST_BYTES", most_bytes)
    families = ["a", "b", "a", "b", "c", "d", "c", "d"]
    frame = pl.DataFrame(
        {
            "family": families,
            "source_family": ["A" if family in "abc" else "D" for family in families],
            "length": [10] * 8,
        }
    )
    for seed in range(6):
        rows = shortcuts._sample(frame, most, np.random.default_rng(seed))
        drawn = {families[row] for row in rows}
        assert rows == [row for row, family in enumerate(families) if family in drawn]
        assert len(drawn) == n_families
        assert "d" in drawn or n_families < 2  # every source family first


def test_a_finding_tells_its_numbers() -> None:
    gain = Estimate(0.5, 0.25, 0.75, 100, 4)
    probe = Probe(
        "question", Estimate(0.6, 0.5, 0.7, 100, 4), 0.3, 0.4, 0.8, gain, gain, ("x", "y")
    )
    text = found_text(probe)
    assert_says(text, "question", "60.0%", "40.0%", "80.0%", "50%", "25% to 75%", "x, y")
    same = Probe("question", gain, 0.3, 0.4, 0.8, gain, Estimate(0.5, math.nan, math.nan, 9, 4), ())
    assert_says(found_text(same), "50%", "the same in every source family")


def told(path: Path, contexts: Sequence[tuple[str, int]], keys: Sequence[str], **texts: str) -> Any:
    """Check records of one question; each is in a source family of its own."""
    criteria = {key: texts.get(key) for key in keys}
    rows = [
        record(
            f"r{number}",
            source_family=f"s{number}",
            state=text,
            decision=question(criteria=criteria),
            reference={"target": keys[right]},
        )
        for number, (text, right) in enumerate(contexts)
    ]
    path.mkdir()
    return check(path, rows)


def test_an_answer_that_the_context_names_is_found_against_counts(tmp_path: Path) -> None:
    """Of 40 contexts, 30 name the right key, 2 a wrong one, 4 both, and 4 none."""
    keys = ["refund it", "replace it"]
    contexts = [(f"Please {keys[n % 2].split()[0]} item {n}. It broke.", n % 2) for n in range(30)]
    contexts += [(f"Please {keys[1 - n % 2]}.", n % 2) for n in range(2)]
    contexts += [("Refund or replace?", n % 2) for n in range(4)]
    contexts += [("Help.", n % 2) for n in range(4)]
    result = told(tmp_path / "a", contexts, keys)
    assert result.counts["answer-in-context"] == 1
    by_key, by_description = result.measured.answer_words
    assert (by_key.records, by_key.right, by_key.wrong) == (40, 30, 2)
    assert by_key.p_value == pytest.approx(scipy.stats.binom.sf(29, 32, 0.5), rel=1e-12)
    assert (by_description.right, by_description.wrong, by_description.p_value) == (0, 0, 1.0)
    (finding,) = [each for each in result.findings if each.code == "answer-in-context"]
    assert finding.severity == "warning"
    assert_says(finding.actual, "75.0% of 40 contexts", "key", "5.0%", "wrong", "p against chance")


def test_words_of_descriptions_name_an_answer_too(tmp_path: Path) -> None:
    contexts = [(f"It is {('cold', 'warm')[n % 2]} outside, {n}.", n % 2) for n in range(30)]
    result = told(tmp_path / "a", contexts, ["x", "y"], x="Cold.", y="Warm.")
    assert result.counts == {"answer-in-context": 1, "context-solved": 1}
    assert [words.right for words in result.measured.answer_words] == [0, 30]


@pytest.mark.parametrize(
    ("right", "wrong", "records", "p_value", "expected"),
    [
        (51, 0, 100, 1e-9, True),
        (50, 0, 100, 1e-9, False),
        (60, 9, 100, 1e-9, True),
        (60, 10, 100, 1e-9, False),
        (9, 0, 9, 0.001, False),
        (0, 0, 0, 1.0, False),
    ],
)
def test_every_boundary_of_named_answers(
    right: int, wrong: int, records: int, p_value: float, expected: bool
) -> None:
    words = AnswerWords("key", records, right, wrong, p_value)
    assert words.tells_the_answer is expected


@pytest.mark.parametrize(
    ("low", "records", "code"),
    [
        (0.5, 100, None),
        (0.51, 100, "context-words"),
        (0.9, 100, "context-words"),
        (0.91, 100, "context-solved"),
        (math.nan, 100, "context-solved"),
        (0.95, 10, "context-solved"),  # 10 of 10 by chance: p = 0.00098
        (0.95, 9, None),
    ],
)
def test_every_boundary_of_words_of_the_context(low: float, records: int, code: str | None) -> None:
    accuracy = Estimate(1.0, 0.9, 1.0, records, 8)
    gain = Estimate(0.97, low, 1.0, records, 8)
    probe = Probe("full context", accuracy, 0.5, 0.4, 1.0, Estimate(0.5, 0.4, 0.6, 9, 8), gain, ())
    assert verdict(probe) == code
    assert probe.p_value == pytest.approx(0.5**records)


def test_contexts_without_any_clue_are_no_finding(tmp_path: Path) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        words = [*"abcdefghijklmnop", "refund", "replace"]
        contexts = [(" ".join(rng.choice(words, 9)), int(rng.integers(2))) for _ in range(60)]
        result = told(tmp_path / str(seed), contexts, ["refund", "replace"])
        assert not {*result.counts} & {"answer-in-context", "context-solved", "context-words"}
