"""Logs of HELM 0.5.16, against what HELM itself counts as right."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from messages import assert_says

from logs import read_rows
from pact_eval.errors import InputError, RecordError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.notes import RepeatedPrompts
from pact_eval.importing.import_run import import_run
from pact_eval.importing.source import ImportOptions
from pact_eval.runs.folder import read_run, unanswered_ids

LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "logs" / "helm"
ANY = ImportOptions(multi="any")
ALL = ImportOptions(multi="any", filter="all")


def content(run: str, name: str) -> Any:
    return json.loads((LOGS / run / f"{name}.json").read_text("utf-8"))


def exact_matches(run: str) -> list[float]:
    """What HELM counts as right, request by request."""
    return [
        stat["mean"]
        for instance in content(run, "per_instance_stats")
        for stat in instance["stats"]
        if stat["name"]["name"] == "exact_match"
    ]


def test_accuracy_is_that_of_helm_if_all_is_answered(tmp_path: Path) -> None:
    import_run(LOGS / "tiny", tmp_path / "run", {}, ANY)
    experiment = Experiment.read([tmp_path / "run"])
    accuracy = experiment.evaluation(experiment.runs[0]).groups[0].estimates["accuracy"]
    logged = next(e["mean"] for e in content("tiny", "stats") if e["name"]["name"] == "exact_match")
    assert accuracy.value == pytest.approx(logged, abs=1e-12)
    run = read_run(tmp_path / "run")
    assert run.provenance.base_model == "pact/tiny"
    assert (run.provenance.known, run.provenance.several_right) == ("answers", 2)
    state = content("tiny", "scenario_state")["request_states"]
    for name, order in zip(run.predictions.ids, run.predictions.code_order[:, 0], strict=True):
        shown = next(
            [*request_state["output_mapping"].values()]
            for request_state in state
            if name == f"tiny:{request_state['instance']['id']}"
        )
        assert [sorted(shown)[at] for at in order] == shown


def test_perturbed_questions_are_a_family_and_trials_are_views(tmp_path: Path) -> None:
    import_run(LOGS / "scripted", tmp_path / "run", {}, ALL)
    experiment = Experiment.read([tmp_path / "run"])
    run = read_run(tmp_path / "run")
    every = {*run.predictions.ids, *unanswered_ids(run)}
    states = content("scripted", "scenario_state")["request_states"]
    instances = {request_state["instance"]["id"] for request_state in states}
    assert every == {f"scripted:{n}{p}" for n in instances for p in ("", "/lowercase")}
    assert {item_id.removesuffix("/lowercase") for item_id in every} >= {*run.predictions.family}
    evaluation = experiment.evaluation(experiment.runs[0])
    answers: dict[tuple[str, str], set[str]] = {}
    for request_state in states:
        key = (
            request_state["instance"]["id"],
            request_state["instance"].get("perturbation", {}).get("name", ""),
        )
        text = request_state["result"]["completions"][0]["text"].strip()
        answers.setdefault(key, set()).add(request_state["output_mapping"].get(text, ""))
    complete = [texts for texts in answers.values() if "" not in texts]
    (note,) = (
        note_of_run for note_of_run in evaluation.notes if isinstance(note_of_run, RepeatedPrompts)
    )
    assert (note.repeats, evaluation.groups[0].items) == (2, len(complete))
    changed = sum(len(texts) > 1 for texts in complete) / len(complete)
    assert note.changed == pytest.approx(changed)
    assert math.isnan(evaluation.groups[0].estimates["flip_rate"].value)


def headline(folder: Path) -> float:
    experiment = Experiment.read([folder])
    (rates,) = experiment.rates(experiment.runs[0])
    return (rates.accuracy_of_asked or rates.accuracy).value


@pytest.mark.parametrize(
    ("name", "group", "changed"),
    [("tiny", None, None), ("scripted", None, None), ("scripted", "test/lowercase", "lowercase")],
)
def test_the_headline_is_the_accuracy_of_helm(
    tmp_path: Path, name: str, group: str | None, changed: str | None
) -> None:
    """HELM has one mean per split and perturbation, over trials, unanswered requests included."""
    rows = import_run(LOGS / name, tmp_path / "run", {}, ImportOptions(multi="any", filter=group))
    (published,) = (
        stat["mean"]
        for stat in content(name, "stats")
        if stat["name"]["name"] == "exact_match"
        and stat["name"].get("perturbation", {}).get("name") == changed
        and stat["name"].get("perturbation", {}).get("computed_on", "perturbed") == "perturbed"
    )
    assert headline(tmp_path / "run") == pytest.approx(published, abs=1e-12)
    assert ("group" in rows.facts.log) == (name == "scripted")


def splits(folder: Path, **right_by_split: list[int]) -> Path:
    """Write a run whose splits have these right (1) and wrong (0) answers."""
    states, items, means = [], [], []
    for split, right in right_by_split.items():
        for at, correct in enumerate(right):
            name = f"{split}{at}"
            references = [
                {"output": {"text": f"text {letter}"}, "tags": ["correct"] * (letter == "B")}
                for letter in "ABC"
            ]
            completion = {"text": " B" if correct else " C", "logprob": -1.0}
            states.append(
                {
                    "instance": {"id": name, "split": split, "references": references},
                    "train_trial_index": 0,
                    "output_mapping": {letter: f"text {letter}" for letter in "ABC"},
                    "result": {"success": True, "completions": [completion]},
                }
            )
            stat = {"name": {"name": "exact_match", "split": split}, "mean": float(correct)}
            items.append({"instance_id": name, "train_trial_index": 0, "stats": [stat]})
        mean = sum(right) / len(right)
        means.append({"name": {"name": "exact_match", "split": split}, "mean": mean})
    folder.mkdir()
    adapter = {"method": "multiple_choice_joint", "model": "org/m"}
    state = {"adapter_spec": adapter, "request_states": states}
    for name, value in (
        ("scenario_state", state),
        ("per_instance_stats", items),
        ("stats", means),
    ):
        (folder / f"{name}.json").write_text(json.dumps(value), "utf-8")
    return folder


def test_splits_are_not_mixed(tmp_path: Path) -> None:
    log = splits(tmp_path / "log", valid=[1, 1, 1, 0], test=[0, 1, 0, 0, 0])
    rows = import_run(log, tmp_path / "test", {})
    assert headline(tmp_path / "test") == pytest.approx(0.2)
    assert_says(rows.remarks[0], "5 requests of test", "valid (4)", "--filter")
    import_run(log, tmp_path / "valid", {}, ImportOptions(filter="valid"))
    assert headline(tmp_path / "valid") == pytest.approx(0.75)
    import_run(log, tmp_path / "all", {}, ImportOptions(filter="all"))
    assert headline(tmp_path / "all") == pytest.approx(4 / 9)


def test_of_several_splits_without_test_the_user_chooses(tmp_path: Path) -> None:
    log = splits(tmp_path / "log", valid=[1, 0], train=[0, 1, 1])
    with pytest.raises(InputError, match=r"several splits; .*valid \(2\), train \(3\): give --fi"):
        read_rows(log)
    with pytest.raises(InputError, match="--filter dev: not in the log; .*give --filter valid"):
        read_rows(log, ImportOptions(filter="dev"))


def test_answers_without_statistics_are_counted_as_unverified(tmp_path: Path) -> None:
    """`stats.json` alone is still a check of the mean."""
    log = splits(tmp_path / "log", test=[1, 0, 0])
    (log / "per_instance_stats.json").unlink()
    assert read_rows(log).facts.log["unverified"] == 3
    stats = json.loads((log / "stats.json").read_text("utf-8"))
    stats[0]["mean"] = 0.5
    (log / "stats.json").write_text(json.dumps(stats), "utf-8")
    with pytest.raises(RecordError, match="test: accuracy is 0.333333, that of stats.json 0.5"):
        read_rows(log)


def _stats(change: Callable[[Any], object]) -> Callable[[Path], None]:
    return _changed("per_instance_stats", change)


def _state(change: Callable[[Any], object]) -> Callable[[Path], None]:
    return _changed("scenario_state", change)


def _changed(name: str, change: Callable[[Any], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        path = folder / f"{name}.json"
        value = json.loads(path.read_text("utf-8"))
        change(value)
        path.write_text(json.dumps(value), "utf-8")

    return apply


def _flip(entry: Any) -> None:
    for stat in entry["stats"]:
        if stat["name"]["name"] == "exact_match":
            stat["mean"] = 1 - stat["mean"]


BAD: list[tuple[Callable[[Path], None], type[Exception], str]] = [
    (
        _stats(lambda all_: _flip(all_[0])),
        RecordError,
        "instance id4, trial 0.: the log counts this",
    ),
    (_state(lambda state: state["request_states"].pop()), RecordError, "accuracy is .* stats.json"),
    (
        _state(lambda state: state["request_states"][0].update(output_mapping=None)),
        RecordError,
        "output_mapping: expected a text for each letter",
    ),
    (
        _state(lambda state: [r.update(tags=[]) for r in first(state)["references"]]),
        RecordError,
        "references: expected one that is tagged as correct",
    ),
    (
        _state(lambda state: state["adapter_spec"].update(method="generation")),
        InputError,
        "expected the method multiple_choice_joint or .*, got 'generation'",
    ),
]


def first(state: Any) -> Any:
    return state["request_states"][0]["instance"]


@pytest.mark.parametrize(("change", "kind", "words"), BAD, ids=[words for *_, words in BAD])
def test_what_cannot_be_read_is_told_and_nothing_is_written(
    tmp_path: Path, change: Callable[[Path], None], kind: type[Exception], words: str
) -> None:
    log = tmp_path / "tiny"
    shutil.copytree(LOGS / "tiny", log)
    change(log)
    with pytest.raises(kind, match=words) as told:
        import_run(log, tmp_path / "run", {}, ANY)
    assert str(told.value).startswith(str(log / "scenario_state.json"))
    assert not (tmp_path / "run").exists()


def test_an_empty_completion_that_counts_as_right_is_a_contradiction(tmp_path: Path) -> None:
    log = tmp_path / "tiny"
    shutil.copytree(LOGS / "tiny", log)
    right = exact_matches("tiny").index(1)

    def answer_nothing(state: dict[str, Any]) -> None:
        state["request_states"][right]["result"]["completions"][0].update(text="?")

    _state(answer_nothing)(log)
    with pytest.raises(RecordError, match="answer as right; .*no answer"):
        read_rows(log, ANY)
    for name in ("per_instance_stats", "stats"):
        (log / f"{name}.json").unlink()
    assert_says(read_rows(log, ANY).remarks[0], "not verified")
