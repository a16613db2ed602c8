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
from pact_eval.errors import InputError, RecordError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.item_outcomes import item_outcomes
from pact_eval.evaluation.notes import RepeatedPrompts, RoundedProbabilities
from pact_eval.evaluation.run_list import list_runs
from pact_eval.importing.row_reader import OWN_NAMES, RowReader
from pact_eval.importing.source import ImportOptions
from pact_eval.importing.writing import import_run
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


@pytest.mark.parametrize("name", NAMES)
def test_accuracies_are_those_of_the_log(name: str) -> None:
    """Inspect counts an unanswered sample as wrong; we count it as unanswered."""
    log = content(name)
    logged = log["results"]["scores"][0]["metrics"]["accuracy"]["value"]
    recomputed = read_rows(LOGS / name).facts.log["recomputed"]
    assert isinstance(recomputed, dict)
    right = sum(sample["scores"]["choice"]["value"] == "C" for sample in log["samples"])
    assert recomputed["correct"] == right
    assert right / len(log["samples"]) == pytest.approx(logged, abs=1e-12)


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
        import_run(LOGS / f"{name}.eval", tmp_path / name, {"arm": name, "seed": 1})
    experiment = Experiment.read([tmp_path / "logprobs", tmp_path / "censored"])
    truth, censored = (experiment.evaluation(run) for run in experiment.runs)
    (bounds,) = (note for note in censored.notes if isinstance(note, RoundedProbabilities))
    estimates = truth.groups[0].estimates
    for name, (low, high) in (
        ("nll_nats", bounds.nll),
        ("aurc", bounds.aurc),
        ("accuracy", bounds.accuracy),
    ):
        for value in (estimates[name].value, censored.groups[0].estimates[name].value):
            assert low - 1e-12 <= value <= high + 1e-12
    assert (bounds.decimals, bounds.censored, bounds.undecided) == (None, 0, 0)
    assert bounds.nll[0] < bounds.nll[1] < bounds.nll[0] + 0.1
    full, partly = (run.predictions for run in experiment.runs)
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


def test_epochs_repeat_a_prompt(tmp_path: Path) -> None:
    import_run(LOGS / "epochs.eval", tmp_path / "run", {})
    experiment = Experiment.read([tmp_path / "run"])
    evaluation = experiment.evaluation(experiment.runs[0])
    answers: dict[str, set[str]] = {}
    for sample in content("epochs.eval")["samples"]:
        answers.setdefault(sample["id"], set()).add(sample["scores"]["choice"]["answer"])
    complete = [letters for letters in answers.values() if "" not in letters]
    (note,) = (
        note_of_run for note_of_run in evaluation.notes if isinstance(note_of_run, RepeatedPrompts)
    )
    assert (note.repeats, evaluation.repeats, evaluation.groups[0].items) == (3, 3, len(complete))
    assert note.changed == pytest.approx(np.mean([len(letters) > 1 for letters in complete]))
    estimates = evaluation.groups[0].estimates
    for name in ("flip_rate", "view_tv", "ensemble_gain"):
        assert (np.isnan(estimates[name].value), estimates[name].n) == (True, 0)
    assert experiment.order_effect(experiment.runs[0]).finding == "one order"


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


def test_log_probabilities_are_read_whatever_the_header_says(tmp_path: Path) -> None:
    log = content("logprobs.eval")
    for config in (log["plan"].get("config"), log["eval"].get("model_generate_config")):
        (config or {}).pop("logprobs", None)
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log), "utf-8")
    read, expected = read_rows(path), read_rows(LOGS / "logprobs.eval")
    assert read.values == expected.values == "logits"
    assert read.frame.sort("id").equals(expected.frame.sort("id"))


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
    with pytest.raises(RecordError) as told:
        read_rows(path)
    (problem,) = told.value.problems
    assert problem.message.startswith("give --multi any")
    imported = read_rows(path, ImportOptions(multi="any"))
    recomputed = imported.facts.log["recomputed"]
    assert isinstance(recomputed, dict)
    assert (imported.facts.several_right, recomputed["correct"]) == (3, right + 1)
    assert_says(imported.remarks[0], "1 answers", "several right")


def test_a_refusal_does_not_repeat_itself(tmp_path: Path) -> None:
    log = content("answers.json")
    for sample in log["samples"]:
        sample["choices"] = None
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log), "utf-8")
    with pytest.raises(RecordError, match="multiple choice") as told:
        read_rows(path)
    assert len(told.value.problems) == 1


@pytest.mark.parametrize("name", ["epochs.eval", "logprobs.eval"])
def test_the_list_of_runs_has_the_accuracy_of_the_report(tmp_path: Path, name: str) -> None:
    """Logs list one epoch after another; the list of runs wants an item's views together."""
    import_run(LOGS / name, tmp_path / "run", {})
    experiment = Experiment.read([str(tmp_path / "run")])
    (listed,) = list_runs([tmp_path / "run"])
    assert listed.state == "complete"
    assert listed.accuracy is not None
    expected = experiment.evaluation(experiment.runs[0]).groups[0].estimates["accuracy"].value
    assert listed.accuracy.value == expected


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


def test_questions_agree_whatever_order_they_were_shown_in() -> None:
    plain, shuffled = (
        read_rows(LOGS / f"{name}.eval").frame for name in ("answers", "dataset_shuffle")
    )
    assert plain["reference"].to_list() == shuffled["reference"].to_list()
    assert plain["code_order"].to_list() != shuffled["code_order"].to_list()


def test_families_are_named_by_metadata() -> None:
    options = ImportOptions(family_from="metadata.article")
    assert read_rows(LOGS / "answers.eval", options).frame["family"].n_unique() == 5


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
    with pytest.raises(RecordError, match=words):
        import_run(changed(tmp_path, change), tmp_path / "run", {})
    assert not (tmp_path / "run").exists()


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
    row: dict[str, Json] = {"id": "a", "reference": 0, "answer": last, "probabilities": even}
    _, read = RowReader(OWN_NAMES).read(row)
    logits = np.array([read["logits"]], dtype=np.float64)
    assert metrics.predicted(metrics.log_softmax(logits, np.array([answers]))).tolist() == [last]
