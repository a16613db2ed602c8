"""Gates and sets of questions and of given answers: at the border, and for logs of questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import runner
from scipy.stats import binom, norm
from thresholds.simulated import run as run_without_names

from pact_cli.main import main
from pact_eval.api import import_run
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.thresholds.accept import accept as untyped_accept
from pact_eval.thresholds.answer_set import answer_set as untyped_answer_set
from pact_eval.thresholds.answer_sets import choose_answer_sets, choose_level
from pact_eval.thresholds.checking import check_answer_sets, check_thresholds
from pact_eval.thresholds.choice import choose_thresholds, group_rows
from pact_eval.thresholds.files import read_thresholds, write_choice
from pact_eval.thresholds.gates import GateItems, Target, choose_gate

accept: Any = untyped_accept  # without types: callers copy it
answer_set: Any = untyped_answer_set
TARGET = Target.of_error(0.05)
thresholds = runner(main, "thresholds")


def answers(rng: np.random.Generator, families: int, errors: tuple[float, ...]) -> Any:
    """Items of families of 1 to 4, and the answer that the model gives to each.

    Of the items with the answer a, `errors[a]` are wrong, whatever the sureness is. Answers,
    sureness and being wrong are alike within families.
    """
    unit = np.arange(families).repeat(rng.integers(1, 5, families))
    n = unit.size
    common = [norm.cdf((rng.normal(size=families)[unit] + rng.normal(size=n)) / 2**0.5)
              for _ in range(3)]  # fmt: skip
    given = np.minimum((common[0] * len(errors)).astype(int), len(errors) - 1)
    wrong = common[1] < np.array(errors)[given]
    names = np.array([f"{family}-{rng.integers(2**40)}" for family in range(families)], object)
    ids = np.arange(n).astype(str).astype(object)
    items = GateItems(ids, names[unit], names[unit], common[2], wrong)
    return items, np.array([f"answer {a}" for a in given], dtype=object)


def guaranteed(
    rng: np.random.Generator, draws: int, errors: tuple[float, ...], confidence: float
) -> np.ndarray[Any, Any]:
    """(draws, answers) whether each answer has a gate."""
    found = np.zeros((draws, len(errors)), dtype=bool)
    for draw in range(draws):
        items, names = answers(rng, 500, errors)
        rows = group_rows({"answer": names, "family": items.unit}, "answer")
        for at, here in enumerate(rows.values()):
            gate = choose_gate(items.taken(here), TARGET, confidence)
            found[draw, at] = gate.threshold is not None
    return found


def test_few_draws_of_answers_at_the_border_have_a_gate() -> None:
    """At an error of the target, 5% of the draws at most; their number is binomial."""
    found = guaranteed(np.random.default_rng(1), 20, (0.05, 0.002), 0.95)
    assert found[:, 0].sum() <= binom.ppf(0.999, 20, 0.05)
    # 59 tested items without an error show at most 5%. Its first gate tests fewer than 105, so the
    # chance of no error is above 0.998 ** 105 = 81%, whatever the sureness is.
    assert found[:, 1].sum() >= binom.ppf(0.001, 20, 0.81)


@pytest.mark.slow
def test_gates_of_answers_keep_their_guarantee_at_the_border() -> None:
    """Each alone in 5% of 1,500 draws, and, at 5% / 3 each, any of the three in 5%."""
    rng, draws = np.random.default_rng(2), 1_500
    alone = guaranteed(rng, draws, (0.05, 0.05, 0.002), 0.95)
    assert (alone[:, :2].sum(axis=0) <= binom.ppf(0.999, draws, 0.05)).all()
    together = guaranteed(rng, draws, (0.05, 0.05, 0.05), 1 - 0.05 / 3)
    assert together.any(axis=1).sum() <= binom.ppf(0.999, draws, 0.05)


def log(path: Path, seed: int, requests: int = 600, questions: int = 2) -> Path:
    """A log whose question `spam` is hard where the answer is ham, and `refund` easy."""
    rng = np.random.default_rng(seed)
    asked = {
        "spam": {"type": "choice", "instructions": "Spam?", "criteria": {"ham": "", "spam": ""}},
        "refund": {"type": "noul", "instructions": "Refund?"},
    }
    lines = []
    for number in range(requests):
        right, luck = rng.random(2) < 0.5, rng.normal(size=2)
        leads = np.where(right, 4.0, [-1.5, -4.0]) + 1.5 * luck
        spam, refund = 1 / (1 + np.exp(-leads))
        said: dict[str, Any] = {
            "spam": {"probabilities": {"ham": 1 - spam, "spam": spam}},
            "refund": {"noul": refund},
        }
        label = {"spam": ["ham", "spam"][int(right[0])], "refund": bool(right[1])}
        kept = [*asked][:questions]
        lines.append({
            "id": f"{seed}-{number}", "label": {name: label[name] for name in kept},
            "request": {"model": "m", "state": f"mail {seed} {number}",
                        "questions": {name: asked[name] for name in kept}},
            "response": {"model": "m", "answers": {name: said[name] for name in kept}},
        })  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("runs")
    sizes = {"january": 600, "february": 600, "few": 20}
    for seed, (name, requests) in enumerate(sizes.items()):
        path = log(home / f"{name}.jsonl", seed, requests)
        import_run(path, home / name)
    return {name: home / name for name in sizes}


@pytest.mark.parametrize("by", ["question", "answer"])
def test_a_group_has_the_gate_of_its_items_alone(runs: dict[str, Path], by: Any) -> None:
    """Families of one item: the gates are those of the rows with this question and answer."""
    chosen = choose_thresholds(runs["january"], TARGET, by=by)
    scored = Experiment.read([runs["january"]]).runs[0].scored("single")
    views = scored.predictions
    question = np.array([name.split("/")[1] for name in views.ids])
    words = {"spam": ["ham", "spam"], "refund": ["false", "true"]}
    named = [f"{q}/{words[q][a]}" for q, a in zip(question, scored.predicted, strict=True)]
    groups = question if by == "question" else np.array(named)
    assert [gate.group for gate in chosen.gates] == sorted(set(groups))
    every = GateItems(
        views.ids, views.family, views.family, scored.confidence, ~scored.correct
    )  # fmt: skip
    for gate in chosen.gates:
        alone = choose_gate(every.taken(groups == gate.group), TARGET, 0.95)
        assert gate.chosen.threshold == alone.threshold
        assert gate.items == (groups == gate.group).sum()


def test_of_the_answer_that_is_often_wrong_fewer_pass(runs: dict[str, Path]) -> None:
    """Nearly all wrong answers of `spam` say spam: right ham has a lead of -1.5 on average."""
    chosen = choose_thresholds(runs["january"], TARGET, by="answer")
    by_name = {gate.group: gate for gate in chosen.gates}
    assert by_name["spam/ham"].guaranteed
    assert by_name["spam/ham"].coverage.value > by_name["spam/spam"].coverage.value


def test_few_items_give_no_gate(runs: dict[str, Path]) -> None:
    few = choose_thresholds(runs["few"], TARGET, by="answer")
    assert not any(gate.guaranteed for gate in few.gates)


@pytest.mark.parametrize("by", ["question", "answer"])
def test_files_are_checked_and_used_by_callers_with_their_groups(
    runs: dict[str, Path], tmp_path: Path, by: Any
) -> None:
    path = tmp_path / "t.json"
    thresholds(runs["january"], "--target-error", 0.1, "--gates-by", by, "--out", path)
    file, written = read_thresholds(path), json.loads(path.read_text("utf-8"))
    assert file.rule.by == by
    check = check_thresholds(path, runs["february"])
    assert check.without_gate == 0
    scored = Experiment.read([runs["february"]]).runs[0].scored("single")
    question = np.array([name.split("/")[1] for name in scored.predictions.ids])
    words = {"spam": ["ham", "spam"], "refund": ["false", "true"]}
    probabilities = np.exp(scored.log_probs)
    for gate in check.gates:
        taken, n = 0, 0
        for at, name in enumerate(question.tolist()):
            answer = words[name][scored.predicted[at]]
            group = name if by == "question" else f"{name}/{answer}"
            if group == gate.group:
                n += 1
                taken += accept(probabilities[at].tolist(), written, group)
        assert gate.coverage.value == pytest.approx(taken / n)


def test_names_are_needed(tmp_path: Path) -> None:
    unnamed = run_without_names(tmp_path / "run", 1, families=20)
    with pytest.raises(InputError, match="question"):
        choose_thresholds(unnamed, TARGET, by="question")
    with pytest.raises(InputError, match="no names"):
        choose_thresholds(unnamed, TARGET, by="answer")


def test_sets_of_a_question_are_chosen_on_its_items_alone(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    """The right answer's probability of the hard question is lower, and so is its level."""
    settings = Settings(resamples=100)
    chosen = choose_answer_sets(runs["january"], 0.97, by="question", settings=settings)
    scored = Experiment.read([runs["january"]]).runs[0].scored("single")
    views, p = scored.predictions, np.exp(scored.log_probs)
    question = np.array([name.split("/")[1] for name in views.ids])
    rows, largest = np.arange(len(p)), p.argmax(axis=1)
    right = np.asarray(views.reference)
    sure = np.where(largest == right, 1.0, p[rows, right])
    items = GateItems(views.ids, views.family, views.family, sure, np.zeros(len(p), dtype=bool))
    assert [kind.kind for kind in chosen.kinds] == ["refund", "spam"]
    for kind in chosen.kinds:
        assert kind.level == choose_level(items.taken(question == kind.kind), 0.97)
        assert kind.sets.items == 600
    easy, hard = chosen.kinds
    assert easy.sets.size.value < hard.sets.size.value
    write_choice(tmp_path / "sets.json", chosen)
    written = json.loads((tmp_path / "sets.json").read_text("utf-8"))
    made = [answer_set(row, written, name) for row, name in zip(p.tolist(), question, strict=True)]
    for kind in chosen.kinds:
        sizes = [len(one) for one, name in zip(made, question, strict=True) if name == kind.kind]
        assert np.mean(sizes) == pytest.approx(kind.sets.size.value)
    checked = check_answer_sets(tmp_path / "sets.json", runs["february"])
    assert checked.file.rule.by == "question"
    assert checked.without_sets == 0
    for one in checked.kinds:
        assert one.sets.coverage.value > 0.94


def test_levels_of_a_question_are_intervals_and_few_items_take_every_answer(
    runs: dict[str, Path],
) -> None:
    sets = {"kinds": {"anger": {"probability_at_least": 0.3, "kind": "score"}}}
    assert answer_set([0.4, 0.2, 0.4], sets, "anger") == [0, 1, 2]
    few = choose_answer_sets(runs["few"], 0.97, by="question", settings=Settings(resamples=100))
    assert all(kind.level.threshold is None for kind in few.kinds)
    assert [kind.needed for kind in few.kinds] == [33, 33], "0.97 / 0.03 is 32.3"
