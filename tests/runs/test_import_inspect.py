"""Logs of Inspect 0.3.285, against the accuracy that it reports and the answers it was given."""

from __future__ import annotations

import itertools
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from messages import assert_says

from logs import read_rows
from pact_eval import metrics
from pact_eval._json import Json
from pact_eval.data.labelled.reading import Reading
from pact_eval.errors import InputError, RecordError, ShapeError
from pact_eval.evaluation.diagnostics import diagnose
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.item_records import item_outcomes
from pact_eval.evaluation.notes import (
    Incomplete,
    RepeatedPrompts,
    Unverified,
)
from pact_eval.evaluation.run_list import list_runs
from pact_eval.importing.import_run import import_run
from pact_eval.importing.row_reader import OWN_NAMES, RowReader
from pact_eval.importing.source import ImportOptions
from pact_eval.importing.zip_members import ZipMembers
from pact_eval.runs.folder import read_run

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "logs" / "inspect"
NAMES = sorted(path.name for path in LOGS.iterdir())


def content(name: str) -> dict[str, Any]:
    """Return a log as one object, its members read by hand."""
    if name.endswith(".json"):
        log: dict[str, Any] = json.loads((LOGS / name).read_text("utf-8"))
        return log
    with ZipMembers(LOGS / name) as members:
        samples = [
            json.loads(members.read(member))
            for member in members.names
            if member.startswith("samples/")
        ]
        header: dict[str, Any] = json.loads(members.read("header.json"))
    return header | {"samples": samples}


def test_both_formats_are_read_alike() -> None:
    packed, plain = read_rows(LOGS / "answers.eval"), read_rows(LOGS / "answers.json")
    second = plain.frame.sort("id")  # of half as many samples, all of them answered or not
    first = packed.frame.filter(packed.frame["id"].is_in(second["id"].to_list())).sort("id")
    columns = [name for name in first.columns if name in second.columns]
    assert first.select(columns).equals(second.select(columns))
    assert (packed.values, packed.model) == ("answers", "mockllm/model")
    assert packed.facts.log["format"] == "inspect"


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_members_of_older_versions_are_read(tmp_path: Path, method: int) -> None:
    """Older versions deflate the members: here those of a log, compressed anew."""
    path = tmp_path / "old.eval"
    with ZipMembers(LOGS / "answers.eval") as members, zipfile.ZipFile(path, "w", method) as old:
        for name in members.names:
            old.writestr(name, members.read(name))
    assert read_rows(path).frame.equals(read_rows(LOGS / "answers.eval").frame)


def test_samples_without_a_choice_have_a_status(tmp_path: Path) -> None:
    import_run(LOGS / "answers.eval", tmp_path / "run", {})
    counts = read_run(tmp_path / "run").provenance.counts
    # Of twelve, "I cannot say." at 5, nothing at 9.
    assert (counts.items, counts.unanswered) == (10, {"failed": 1, "missing": 1})


def test_probabilities_are_those_of_the_letters(tmp_path: Path) -> None:
    import_run(LOGS / "logprobs.eval", tmp_path / "run", {})
    run = read_run(tmp_path / "run")
    assert run.predictions.known == "probabilities"
    by_id = {
        logged_sample["id"]: logged_sample for logged_sample in content("logprobs.eval")["samples"]
    }
    for at, name in enumerate(run.predictions.ids.tolist()):
        sample = by_id[name]
        tokens = sample["output"]["choices"][0]["logprobs"]["content"][-1]["top_logprobs"]
        of_letter = {token["token"].strip(): token["logprob"] for token in tokens}
        by_text = sorted("ABCD", key=lambda letter: sample["choices"]["ABCD".index(letter)])
        expected = np.exp([of_letter[letter] for letter in by_text])
        probabilities = np.exp(run.predictions.log_probs("single")[at])
        assert probabilities == pytest.approx(expected / expected.sum(), rel=1e-12)
    assert run.predictions.answer_mass[:, 0] == pytest.approx(0.97)


def test_scores_of_letters_that_are_not_listed_are_bounds(tmp_path: Path) -> None:
    """Of the same answers, with all letters listed and with three of four in every second one."""
    for name in ("logprobs", "censored"):
        import_run(LOGS / f"{name}.eval", tmp_path / name, {})
    full, partly = (read_run(tmp_path / name).predictions for name in ("logprobs", "censored"))
    assert partly.censored is not None
    assert partly.censored.sum() == 6
    unlisted = partly.censored[:, 0]
    assert np.array_equal(full.logits[:, 0][~unlisted], partly.logits[:, 0][~unlisted])
    # Each has at most what the others leave: 0.03 is on no letter.
    p = np.exp(full.logits[:, 0])
    ceiling = np.minimum(
        np.where(unlisted, 1, p).min(axis=1), np.where(unlisted, p, 0).sum(1) + 0.03
    )
    rows = unlisted.any(axis=1)
    assert np.exp(partly.logits[:, 0][unlisted]) == pytest.approx(ceiling[rows])


def test_an_answer_without_a_log_probability_leaves_answers_only(tmp_path: Path) -> None:
    log = content("logprobs.eval")
    log["samples"][3]["output"]["choices"][0]["logprobs"] = None
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log), "utf-8")
    imported = read_rows(path)
    assert imported.values == "answers"
    assert_says(imported.remarks[0], "1 answers", "no log-probability")
    full = read_rows(LOGS / "logprobs.eval").frame
    best = [max(range(4), key=logits.__getitem__) for logits in full["logits"].to_list()]
    assert [logits.index(0.0) for logits in imported.frame["logits"].to_list()] == best


@pytest.mark.parametrize("name", NAMES)
def test_the_headline_is_the_accuracy_of_the_log(tmp_path: Path, name: str) -> None:
    """Epochs and samples without an answer included, which Inspect counts as wrong."""
    import_run(LOGS / name, tmp_path / "run", {})
    experiment = Experiment.read([tmp_path / "run"])
    rates = experiment.rates(experiment.runs[0])[0]
    headline = rates.accuracy_of_asked or rates.accuracy
    logged = content(name)["results"]["scores"][0]["metrics"]["accuracy"]["value"]
    assert headline.value == pytest.approx(logged, abs=1e-12)


def test_epochs_that_are_shuffled_are_repeats_in_other_orders(tmp_path: Path) -> None:
    """The accuracy is the mean over epochs, as in the log; the orders tell what is followed."""
    import_run(LOGS / "shuffled_epochs.eval", tmp_path / "run", {})
    experiment = Experiment.read([tmp_path / "run"])
    (run,) = experiment.runs
    evaluation = experiment.evaluation(run)
    (note,) = (
        note_of_run for note_of_run in evaluation.notes if isinstance(note_of_run, RepeatedPrompts)
    )
    assert (note.repeats, note.shuffled, evaluation.repeats) == (3, True, 3)
    assert run.in_orders().predictions.k == 3
    answers: dict[str, list[int]] = {}
    for sample in content("shuffled_epochs.eval")["samples"]:
        answer = sample["scores"]["choice"]["answer"]
        answers.setdefault(sample["id"], []).append("ABCD".index(answer) if answer else -1)
    complete = [positions for positions in answers.values() if -1 not in positions]
    effect, order = experiment.order_effect(run), experiment.order(run)
    assert effect.flip_rate.value == np.mean([len({*positions}) > 1 for positions in complete])
    assert (effect.finding, order.flip_rate) == ("no floor", effect.flip_rate)
    assert item_outcomes(experiment, run).flipped.mean() == effect.flip_rate.value
    text = str(experiment.report())
    assert_says(text, "3 times", "other orders")
    assert "in one order, so" not in text


def test_several_right_letters_count_if_the_user_says_so(tmp_path: Path) -> None:
    """The scorer asks for all letters: a sample that names both is right there, one is wrong."""
    log = content("answers.json")
    answered = (
        logged_sample
        for logged_sample in log["samples"]
        if logged_sample["scores"]["choice"]["answer"]
    )
    first, second, third = itertools.islice(answered, 3)
    for sample, answer, value in ((first, "A, B", "C"), (second, "B", "I"), (third, "C", "I")):
        sample["target"] = ["A", "B"]
        sample["scores"]["choice"] |= {"answer": answer, "value": value}
    right = sum(
        logged_sample["scores"]["choice"]["value"] == "C" for logged_sample in log["samples"]
    )
    metric = log["results"]["scores"][0]["metrics"]["accuracy"]
    metric["value"] = right / len(log["samples"])
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log), "utf-8")
    with pytest.raises(ShapeError, match="give --multi any"):
        read_rows(path)
    imported = read_rows(path, ImportOptions(multi="any"))
    recomputed = imported.facts.log["recomputed"]
    assert isinstance(recomputed, dict)
    assert (imported.facts.several_right, recomputed["correct"]) == (3, right + 1)
    assert_says(imported.remarks[0], "1 answers", "several right")


def test_the_order_that_was_shown_is_known() -> None:
    """The solver says in the explanation what it has shown; the log shows the dataset's order."""
    frame = read_rows(LOGS / "solver_shuffle.eval").frame
    by_id = {
        logged_sample["id"]: logged_sample
        for logged_sample in content("solver_shuffle.eval")["samples"]
    }
    for row in frame.iter_rows(named=True):
        sample = by_id[row["id"]]
        explanation = sample["scores"]["choice"]["explanation"]
        shown = [
            line[3:]
            for line in explanation.splitlines()
            if len(line) > 3 and line[0] in "ABCD" and line[1:3] == ") "
        ]
        shown = shown or sample["choices"]  # some draws leave the order as it is
        texts = sorted(sample["choices"])
        assert [texts[position] for position in row["code_order"]] == shown
        assert texts[row["reference"]] == sample["choices"]["ABCD".index(sample["target"])]


def changed(folder: Path, change: Any) -> Path:
    log = content("answers.json")
    change(log)
    path = folder / "log.json"
    path.write_text(json.dumps(log), "utf-8")
    return path


def _score(log: dict[str, Any], **values: Any) -> None:
    log["samples"][0]["scores"]["choice"].update(values)


BAD: list[tuple[Any, str]] = [
    (lambda log: _score(log, answer="B", value="C"), r"sample sum-2, epoch 1\): the log counts"),
    (lambda log: log["samples"][0].update(choices=None), "choices: expected a list of answers"),
    (lambda log: log["samples"][0].update(target=["A", "B"]), "give --multi any"),
    (lambda log: log["samples"][0].update(target="Z"), "expected a letter of one of 4 choices"),
    (lambda log: log["samples"].pop(0), "accuracy is .*, that of the log"),
    (lambda log: log["samples"].clear(), "expected at least one row"),
    (lambda log: log["samples"][0].update(epoch=[0]), "epoch: expected an integer, got"),
    (
        lambda log: log["samples"][0].update(scores={"a": {"value": "C"}, "b": {"value": "I"}}),
        "scores of a, b; choose one with --scorer",
    ),
]


@pytest.mark.parametrize(("change", "words"), BAD, ids=[words for _, words in BAD])
def test_what_cannot_be_read_is_told_and_nothing_is_written(
    tmp_path: Path, change: Any, words: str
) -> None:
    with pytest.raises((RecordError, ShapeError), match=words):
        import_run(changed(tmp_path, change), tmp_path / "run", {})
    assert not (tmp_path / "run").exists()


def log_of(folder: Path, samples: list[dict[str, Any]], **header: Any) -> Path:
    """Write a log of samples: (id, epoch, choices, target, answer, value)."""
    entries = [
        {
            **{key: sample[key] for key in ("id", "epoch", "choices", "target")},
            "output": sample.get("output", {}),
            "scores": {"choice": {"answer": sample["answer"], "value": sample["value"]}},
        }
        for sample in samples
    ]
    results = header.pop("results", {})
    evaluation = {"task": "t", "model": "m", **header.pop("eval", {})}
    log = {"status": "success", "eval": evaluation, "results": results, "samples": entries}
    path = folder / "log.json"
    path.write_text(json.dumps(log | header), "utf-8")
    return path


def sample(
    at: int, target: str | list[str], answer: str, value: Any, **more: Any
) -> dict[str, Any]:
    return {
        "id": f"q{at}",
        "epoch": 1,
        "choices": ["w", "x", "y", "z"],
        "target": target,
        "answer": answer,
        "value": value,
        **more,
    }


def published(value: float, reducer: str | None = None, name: str = "choice") -> dict[str, Any]:
    score = {"name": name, "scorer": name, "metrics": {"accuracy": {"value": value}}}
    return {"scores": [score | ({"reducer": reducer} if reducer else {})]}


def headline(log: Path, out: Path, options: ImportOptions | None = None) -> float:
    import_run(log, out, {}, options)
    experiment = Experiment.read([out])
    rates = experiment.rates(experiment.runs[0])[0]
    return (rates.accuracy_of_asked or rates.accuracy).value


def test_targets_that_are_texts_of_choices_are_not_letters(tmp_path: Path) -> None:
    choices = ["AC", "DC", "AB", "BD"]
    asked = [sample(at, choices[at % 4], "CDAB"[at % 4], "I", choices=choices) for at in range(8)]
    assert headline(log_of(tmp_path, asked, results=published(0.0)), tmp_path / "run") == 0
    asked[0]["answer"] = "A"  # the text is right, and the scorer counts it as wrong
    with pytest.raises(RecordError, match="q0, epoch 1.: the log counts this answer as wrong"):
        read_rows(log_of(tmp_path, asked))


@pytest.mark.parametrize(("form", "right"), [("letter", "C"), ("text", "B")])
def test_letters_and_texts_that_both_fit_are_a_question(
    tmp_path: Path, form: str, right: str
) -> None:
    """Of choices B, C, A, the target A is the first as a letter and the third as a text."""
    asked = [sample(at, "A", "B", "I", choices=["B", "C", "A"]) for at in range(3)]
    with pytest.raises(ShapeError, match="as a letter, 'B' is right; as a text, 'A'. Decide with"):
        read_rows(log_of(tmp_path, asked))
    options = ImportOptions(reading=Reading(form=form))
    frame = read_rows(log_of(tmp_path, asked), options).frame
    assert {"ABC"[at] for at in frame["reference"]} == {"B" if form == "letter" else "A"}
    # One score decides: C is the answer that is right as a letter or as a text.
    asked[0] |= {"answer": "A" if form == "letter" else "C", "value": "C"}
    assert headline(log_of(tmp_path, asked), tmp_path / "run") == pytest.approx(1 / 3)


EPOCHS = {"mode": 2 / 3, "max": 1.0, "median": 2 / 3, "at_least_2": 2 / 3, "at_least_3": 1 / 3}


@pytest.mark.parametrize(("reducer", "value"), EPOCHS.items())
def test_the_reducer_of_the_log_is_that_of_the_headline(
    tmp_path: Path, reducer: str, value: float
) -> None:
    """Three samples of three epochs, with three, two and one right answer."""
    asked = [
        sample(at, "A", "A" if right else "B", "C" if right else "I", epoch=epoch)
        for at in range(3)
        for epoch, right in enumerate([True, at < 2, at < 1], start=1)
    ]
    log = log_of(tmp_path, asked, results=published(value, reducer))
    assert headline(log, tmp_path / "run") == pytest.approx(value, abs=1e-12)
    assert_says(read_rows(log).remarks[0], reducer, "--scorer choice:mean")
    every = ImportOptions(scorer="choice:mean")
    assert headline(log, tmp_path / "every", every) == pytest.approx(6 / 9)
    with pytest.raises(RecordError, match=f"accuracy is {value:.6f}, that of the log 0.1"):
        read_rows(log_of(tmp_path, asked, results=published(0.1, reducer)))


def test_a_reducer_that_leaves_no_answer_is_refused(tmp_path: Path) -> None:
    asked = [sample(0, "A", "AB"[e == 1], "CI"[e == 1], epoch=e) for e in (1, 2, 3)]
    log = log_of(tmp_path, asked, results=published(1.0, "pass_at_2"))
    assert read_rows(log).facts.log["reducer"] == "pass_at_2"
    asked.append(sample(0, "A", "B", "I", epoch=4))
    log = log_of(tmp_path, asked, results=published(5 / 6, "pass_at_2"))
    with pytest.raises(RecordError, match="pass_at_2 .*one answer.*--scorer choice:mean reads"):
        read_rows(log)
    assert headline(log, tmp_path / "run", ImportOptions(scorer="choice:mean")) == 0.5


def test_scores_that_are_no_check_are_counted(tmp_path: Path) -> None:
    values = [{"acc": 1}, 0.5, "P", "C", 1, False]
    asked = [sample(at, "A", "B" if v is False else "A", v) for at, v in enumerate(values)]
    rows = read_rows(log_of(tmp_path, asked, results=published(0.6)))
    assert rows.facts.log["unverified"] == 3
    assert_says(rows.remarks[0], "3 scores", "0.6000 (mean accuracy)")


def test_samples_of_the_dataset_that_the_log_lacks_are_counted(tmp_path: Path) -> None:
    asked = [sample(at, "A", "A", "C", epoch=epoch) for at in range(4) for epoch in (1, 2)]
    of_dataset: dict[str, Any] = {"dataset": {"samples": 10}, "config": {"epochs": 2, "limit": 4}}
    log = log_of(tmp_path, asked, eval=of_dataset, results=published(1.0))
    assert read_rows(log).facts.log["incomplete"] == {"read": 4, "of": 10}
    # A cancelled log: what lacks an epoch is left out.
    log = log_of(tmp_path, asked[:-1], eval=of_dataset, status="cancelled")
    rows = read_rows(log)
    assert rows.facts.log["incomplete"] == {"read": 3, "of": 10}
    assert rows.frame["id"].n_unique() == 3
    whole = {"dataset": {"samples": 4}, "config": {"epochs": 2}}
    assert "incomplete" not in read_rows(log_of(tmp_path, asked, eval=whole)).facts.log


def test_what_a_log_lacks_is_a_warning_of_the_report_and_a_gap_of_the_list(
    tmp_path: Path,
) -> None:
    values = ["C", "P", {"acc": 1}]
    asked = [sample(at, "A", "A", value) for at, value in enumerate(values)]
    import_run(log_of(tmp_path, asked, eval={"dataset": {"samples": 20}}), tmp_path / "run", {})
    experiment = Experiment.read([tmp_path / "run"])
    expected = (Incomplete(3, 20), Unverified(2, 3))
    evaluation = experiment.evaluation(experiment.runs[0])
    assert tuple(
        note for note in evaluation.notes if isinstance(note, Incomplete | Unverified)
    ) == (expected)
    diagnostics = [d for d in diagnose(experiment) if d.kind == "notes"]
    assert {d.numbers["note"] for d in diagnostics if d.severity == "warning"} == {*expected}
    assert list_runs([tmp_path / "run"])[0].gaps == expected


def tokens(*listed: tuple[str, float]) -> dict[str, Any]:
    top = [{"token": text, "logprob": float(np.log(p))} for text, p in listed]
    content = [{"token": "ANSWER:", "logprob": -0.01}, {**top[0], "top_logprobs": top}]
    return {"choices": [{"logprobs": {"content": content}}]}


def test_tokens_with_one_text_are_summed(tmp_path: Path) -> None:
    listed = ("A", 0.40), ("B", 0.25), ("B", 0.20), (" C", 0.05), ("C", 0.03), ("D", 0.01)
    asked = [sample(at, "A", "A", "C", output=tokens(*listed)) for at in range(4)]
    rows = read_rows(log_of(tmp_path, asked, results=published(1.0)))
    assert np.exp(rows.frame["logits"][0].to_list()) == pytest.approx([0.40, 0.45, 0.08, 0.01])
    assert_says(rows.remarks[0], "4 answers", "not the most probable")


def test_of_tokens_that_tie_the_answer_of_the_log_is_the_most_probable(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    asked = []
    for at, p in enumerate(rng.uniform(0.2, 0.49, size=40)):
        answer = "AB"[at % 2]
        order = [(answer, p), ("BA"[at % 2], p), ("C", 0.01)]
        asked.append(sample(at, "B", answer, "CI"[answer == "A"], output=tokens(*order)))
    log = log_of(tmp_path, asked, results=published(0.5))
    assert headline(log, tmp_path / "run") == 0.5


@pytest.mark.parametrize("listed", [[("A", 0.8), ("B", 0.7)], [("A", 1.5), ("B", 0.1)]])
def test_probabilities_above_one_are_refused(
    tmp_path: Path, listed: list[tuple[str, float]]
) -> None:
    asked = [sample(at, "A", "A", "C", output=tokens(*listed)) for at in range(2)]
    with pytest.raises(RecordError, match="log-probabilities: expected"):
        read_rows(log_of(tmp_path, asked))


def random_log(rng: np.random.Generator, folder: Path) -> tuple[Path, float]:
    """Write a log of known accuracy: letters or texts, any choices, orders, epochs, a reducer."""
    vocabulary = [["w", "x", "y", "z"], ["A", "B", "C", "D"], ["1", "2", "3"], ["AB", "A", "bad"]]
    texts = vocabulary[rng.integers(len(vocabulary))]
    as_text, epochs = bool(rng.integers(2)), int(rng.integers(1, 4))
    reducer = str(rng.choice(["mean", "mode", "max", "at_least_2"])) if epochs == 3 else "mean"
    asked, values = [], []
    for at in range(int(rng.integers(2, 12))):
        choices = [str(text) for text in rng.permutation(texts)]
        right = int(rng.integers(len(choices)))
        picks = rng.integers(len(choices), size=epochs)
        hits = int((picks == right).sum())
        values.append(
            {
                "mean": hits / epochs,
                "mode": float(hits >= 2),
                "max": float(hits >= 1),
                "at_least_2": float(hits >= 2),
            }[reducer]
        )
        asked += [
            sample(
                at,
                choices[right] if as_text else "ABCD"[right],
                "ABCD"[pick],
                "C" if pick == right else "I",
                epoch=epoch,
                choices=choices,
            )
            for epoch, pick in enumerate(picks, start=1)
        ]
    truth = float(np.mean(values))
    return log_of(folder, asked, results=published(truth, reducer)), truth


@pytest.mark.parametrize(
    "seed", [52, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(53, 60))]
)
def test_random_logs_are_read_right_or_refused(tmp_path: Path, seed: int) -> None:
    rng, refused = np.random.default_rng(seed), 0
    for number in range(10):
        log, truth = random_log(rng, tmp_path)
        try:
            value = headline(log, tmp_path / f"run{number}")
        except (RecordError, ShapeError) as error:
            refused += 1
            expected = "both readings fit" in str(error)
        else:
            expected = value == pytest.approx(truth, abs=1e-9)
        assert expected, number
    assert refused < 6


def test_a_scorer_that_does_not_exist_is_named_once() -> None:
    with pytest.raises(RecordError) as told:
        read_rows(LOGS / "answers.json", ImportOptions(scorer="nope"))
    (problem,) = told.value.problems
    assert problem.message.startswith("--scorer nope: ")
    assert problem.message.endswith(" has scores of choice")


def test_damaged_archives_are_told(tmp_path: Path) -> None:
    raw = bytearray((LOGS / "answers.eval").read_bytes())
    path = tmp_path / "cut.eval"
    path.write_bytes(raw[:2000])
    with pytest.raises(InputError, match="not a zip archive"):
        read_rows(path)
    with zipfile.ZipFile(LOGS / "answers.eval") as archive:
        at = archive.getinfo("summaries.json").header_offset + 60
    raw[at] ^= 0xFF
    path.write_bytes(raw)
    with pytest.raises(InputError, match="summaries.json: damaged"):
        read_rows(path)


@pytest.mark.parametrize("answers", [2, 3, 5, 8])
def test_the_answer_of_a_log_wins_a_tie(answers: int) -> None:
    last = answers - 1
    even: list[Json] = [1 / answers] * answers
    row: dict[str, list[Json]] = {"id": ["a"], "reference": [0], "answer": [last]}
    read, _ = RowReader(OWN_NAMES).read(row | {"probabilities": [even]}, 1)
    logits = np.array(read["logits"].to_list(), dtype=np.float64)
    assert metrics.predicted(metrics.log_softmax(logits, np.array([answers]))).tolist() == [last]


def test_summaries_that_are_no_objects_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    with ZipMembers(LOGS / "logprobs.eval") as members, zipfile.ZipFile(path, "w") as new:
        for name in members.names:
            content = members.read(name)
            if name == "summaries.json":
                content = json.dumps(["text", *json.loads(content)[1:]]).encode()
            new.writestr(name, content)
    with pytest.raises(RecordError, match="sample 1, epoch 1"):
        read_rows(path)
