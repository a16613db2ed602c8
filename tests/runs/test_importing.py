from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from builders import write_jsonl
from click.testing import CliRunner
from messages import assert_says

import pact_eval
from logs import read_rows
from pact_cli.main import main
from pact_eval.calibration.likelihood import CalibrationItems
from pact_eval.errors import InputError, RecordError, RunSettingsError, ShapeError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.items import read_items
from pact_eval.evaluation.notes import RoundedProbabilities, SeveralRight
from pact_eval.evaluation.settings import Settings
from pact_eval.importing.import_run import FurtherColumns, import_run
from pact_eval.importing.row_reader import parse_mapping
from pact_eval.importing.source import ImportOptions
from pact_eval.runs.folder import read_run, unanswered_ids
from pact_eval.runs.predictions import Predictions


def row(record_id: str = "a", **changes: Any) -> dict[str, Any]:
    return {"id": record_id, "reference": 1, "probabilities": [0.25, 0.75]} | changes


def test_the_published_rows_are_accepted_as_they_are(
    experiment_files: Path, tmp_path: Path
) -> None:
    path = experiment_files / "shipped_holdout_rows.jsonl"
    imported = import_run(path, tmp_path / "run", {"arm": "pact_full", "seed": 18})
    assert imported.remarks == ()
    run = read_run(tmp_path / "run")
    assert run.provenance.recorded["counts"] == {"items": 324, "views": 324}
    published = {(r := json.loads(line))["id"]: r for line in path.read_text().splitlines()}
    predictions = run.predictions
    probabilities = np.exp(predictions.log_probs("single"))
    for number, record_id in enumerate(predictions.ids.tolist()):
        expected = published[record_id]
        kind = "boolean" if expected["kind"] == "noul" else expected["kind"]
        assert predictions.kind[number] == kind
        assert predictions.reference[number] == expected["gold"]
        n = int(predictions.n_choices[number])
        assert probabilities[number, :n] == pytest.approx(expected["probabilities"], abs=1e-14)
        assert predictions.view_tv is not None
        assert predictions.view_tv[number] == expected["permutation_tv"]


def test_columns_can_be_mapped_and_defaults_filled(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "rows.jsonl", [{"key": "a", "label": 0, "logits": [1.0, -2], "note": [1]}]
    )
    imported = read_rows(path, ImportOptions(mapping=parse_mapping(["id=key", "reference=label"])))
    assert imported.facts.ignored_columns == ("note",)
    only = imported.frame.row(0, named=True)
    assert only["id"] == only["family"] == only["source_family"] == "a"
    assert (only["kind"], only["variant"], only["view"]) == ("choice", None, 0)
    assert only["logits"] == [1.0, -2.0]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_further_columns_of_items_divide_a_report(tmp_path: Path, ending: str) -> None:
    """Those of views, lists and prompts are ignored; a missing value is a group of its own."""
    rows = [
        {
            "id": f"i{n}",
            "view": view,
            "reference": n % 2,
            "probabilities": [0.75, 0.25],
            "region": ["north", "south", None][n % 3],
            "stars": n % 4,
            "seconds": n + view / 2,
            "tags": ["a"],
            "prompt": f"{n}" + "long" * 100,
        }
        for n in range(24)
        for view in (0, 1)
    ]
    path = tmp_path / f"rows.{ending}"
    if ending == "parquet":
        pl.DataFrame(rows).write_parquet(path)
    else:
        write_jsonl(path, rows)
    run = pact_eval.import_run(path, tmp_path / "run")
    assert run.provenance.recorded["ignored_columns"] == ["seconds", "tags", "prompt"]
    assert any("--by: region, stars" in remark for remark in run.remarks)
    groups = {}
    for by in ("region", "stars"):
        report = pact_eval.evaluate(run, pact_eval.Settings(by=by, resamples=200))
        groups[by] = {group.name: group for group in report.groups}
    assert groups["region"]["north"].items == 8
    even = [n % 2 == 0 for n in range(24) if n % 3 == 0]
    accuracy = groups["region"]["north"].estimates["accuracy"].value
    assert accuracy == pytest.approx(sum(even) / len(even))
    assert len(groups["stars"]) == 5


def test_a_column_of_groups_with_a_long_value_is_kept_and_divides(tmp_path: Path) -> None:
    """Long values with the same 199 characters are one group; those that differ before are two."""
    start = "a" * 199
    topics = ["short", f"{start}b one", f"{start}b two", f"b{start} three"]
    rows = [row(f"i{n}", reference=n % 2, topic=topics[n % 4]) for n in range(40)]
    run = pact_eval.import_run(write_jsonl(tmp_path / "rows.jsonl", rows), tmp_path / "run")
    assert run.provenance.recorded["ignored_columns"] == []
    report = pact_eval.evaluate(run, pact_eval.Settings(by="topic", resamples=100))
    groups = {group.name: group.items for group in report.groups[1:]}
    assert groups == {"short": 10, f"{start}…": 20, f"b{start[:198]}…": 10}
    experiment = Experiment.read([run])
    assert "topic" in experiment.where(experiment.runs[0]).columns


def test_long_texts_of_views_with_one_beginning_are_not_of_the_item() -> None:
    """Prompts of an item in two orders begin alike."""
    columns = FurtherColumns(kept=True)
    for items in ([0, 0, 1, 1], [2, 2, *range(3, 10)], range(3, 10)):  # blocks of rows
        views = [number % 2 for number in range(len(items))]
        prompts = ["a" * 300 + str(view) for view in views]
        columns.add([f"i{n}" for n in items], {"prompt": prompts, "same": ["a" * 300] * len(views)})
    assert columns.ignored == ("prompt",)
    assert columns.values == {"same": ["a" * 199 + "…"] * 10}


def test_many_different_long_texts_are_no_groups() -> None:
    columns = FurtherColumns(kept=True)
    items = range(1000)
    documents, topics = ([f"{item % n}" + "a" * 300 for item in items] for n in (201, 200))
    columns.add([f"i{item}" for item in items], {"document": documents, "topic": topics})
    assert columns.ignored == ("document",)


def test_a_zero_stays_zero_and_is_counted(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "rows.jsonl",
        [row("a", probabilities=[1.0, 0.0]), row("b", probabilities=[0, 1])],
    )
    imported = read_rows(path)
    assert imported.facts.zero_on_reference == 1
    predictions = Predictions.from_frame(imported.frame)
    assert predictions.log_probs("single")[0].tolist() == [0.0, -math.inf]
    assert "NLL is infinite" in imported.remarks[0]


def test_rounded_probabilities_are_renormalised_and_counted(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "rows.jsonl", [row(probabilities=[0.3333, 0.6666])])
    imported = read_rows(path)
    assert imported.facts.renormalised == 1
    log_probs = Predictions.from_frame(imported.frame).log_probs("single")
    assert np.exp(log_probs).sum() == pytest.approx(1, abs=1e-15)


def test_several_views_come_in_any_order(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "rows.jsonl",
        [
            row("a", view=1, code_order=[1, 0]),
            row("b", view=0),
            row("b", view=1, code_order=[1, 0], probabilities=[0.5, 0.5]),
            row("a", view=0, probabilities=[0.9, 0.1]),
        ],
    )
    predictions = Predictions.from_frame(read_rows(path).frame)
    assert predictions.k == 2
    assert np.exp(predictions.log_probs_by_view)[0] == pytest.approx(
        np.array([[0.9, 0.1], [0.25, 0.75]])
    )


BAD: list[tuple[list[Any], str]] = [
    ([row(id="")], "id: expected text"),
    ([row(variant="Base")], "variant: expected base, counterfactual, got"),
    ([row(kind="noul", probabilities=[0.2, 0.3, 0.5])], "expected 2 numbers for a boolean, got 3"),
    ([row(probabilities=None, log_probabilities=[-5, -6])], "expected a sum of 1, got 0.009"),
    ([row(probabilities=None, log_probabilities=[0.7, -6])], "values from 0 to 1"),
    ([row(probabilities=None, logits=[10**400, 1])], "expected finite numbers"),
    ([row(answer_mass=5)], "answer_mass: expected a number from 0 to 1, got 5"),
    ([row(answer_mass="x")], "answer_mass: expected a number"),
    ([row(prompt_tokens=0)], "prompt_tokens: expected an integer from 1"),
    ([row(prompt_tokens=12.5)], "prompt_tokens: expected an integer from 1"),
    ([row(prompt_tokens=99999999999)], "prompt_tokens: expected an integer"),
    ([row(code_order=[True, False])], "code_order: expected an order"),
    (
        [row(), row(view=1, reference=0)],
        r"reference: expected the same value in every view, got 1 and 0",
    ),
    (
        [row(), row(view=1, probabilities=[0.2, 0.3, 0.5])],
        "n_choices: expected the same value in every view, got 2 and 3",
    ),
    (
        [row(reference=2)],
        r":1 \(id a\): reference/gold: expected an integer from 0 to 1, got 2",
    ),
    ([row(reference=True)], "reference/gold: expected an integer"),
    ([row(kind="rating")], 'kind: expected choice, noul, boolean, score, got "rating"'),
    ([row(), row("b", probabilities=None)], "expected one of probabilities, .*; got none"),
    ([row(logits=[1, 2])], "got probabilities, logits"),
    ([row(), row("b", probabilities=None, logits=[1, 2])], "as in earlier rows, got logits"),
    ([row(probabilities=[0.5, 0.6])], "expected a sum of 1, got 1.1"),
    ([row(probabilities=[-0.1, 1.1])], "values from 0 to 1"),
    ([row(probabilities=[1.0])], "a list of 2 to 255 numbers, got 1 numbers"),
    ([row(probabilities=[1 / 256] * 256)], "a list of 2 to 255 numbers, got 256"),
    ([row(probabilities=["a", "b"])], "expected finite numbers"),
    (['{"id": "a", "probabilities": [NaN, 1]}'], "finite number, got NaN"),
    (['{"id": "a", "id": "b"}'], 'duplicate key "id"'),
    ([row(), row()], r":2 \(id a\): the same id and view already occur on line 1"),
    ([row(view=1)], r"expected views 0 to 1, got \[1\]"),
    ([row(code_order=[0, 0])], "code_order: expected an order of 0 to 1"),
    (["[1]"], "expected an object, got an integer"),
    ([], "at least one row"),
]


@pytest.mark.parametrize(("rows", "words"), BAD, ids=[words for _, words in BAD])
def test_malformed_rows_are_told_and_nothing_is_written(
    tmp_path: Path, rows: list[Any], words: str
) -> None:
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    with pytest.raises(RecordError, match=words):
        import_run(path, tmp_path / "run", {})
    assert not (tmp_path / "run").exists()


LOGS = Path(__file__).resolve().parents[2] / "fixtures" / "logs"
DATASET = LOGS.parent / "pact_fixtures" / "data" / "holdout.jsonl"


def test_a_dataset_has_to_be_scored_first() -> None:
    """It was refused line by line, for the lack of probabilities."""
    with pytest.raises(InputError, match="holdout.jsonl:1: .*dataset.*pact-eval score"):
        read_rows(DATASET)
    assert len(DATASET.read_text().splitlines()) > 1


@pytest.mark.parametrize(
    ("log", "name", "its"),
    [
        ("lm_eval", "inspect", "lm-eval"),
        ("inspect/answers.json", "helm", "inspect"),
        ("helm/tiny", "lm-eval", "helm"),
    ],
)
def test_a_log_of_another_format_than_the_named_one_is_told(log: str, name: str, its: str) -> None:
    with pytest.raises(InputError, match=f"{log}: --from {name}, .*{its};"):
        read_rows(LOGS / log, ImportOptions(source=name))


def test_a_mapping_to_a_column_that_no_row_has_is_told(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "rows.jsonl", [row()])
    with pytest.raises(RecordError, match="--map domain=subject: no row .*subject"):
        read_rows(path, ImportOptions(mapping={"domain": "subject"}))
    with pytest.raises(InputError, match="already mapped to a"):
        parse_mapping(["id=a", "id=b"])


def test_views_without_code_order_say_nothing_about_letters(tmp_path: Path) -> None:
    # Orders were once taken for canonical, and a model that always answers A passed the test.
    rows = [row(f"{item}", view=view) for item in range(9) for view in range(2)]
    imported = read_rows(write_jsonl(tmp_path / "rows.jsonl", rows))
    assert "the effect of letters" in imported.remarks[0]
    predictions = Predictions.from_frame(imported.frame)
    assert (predictions.code_order[:, 0] == [0, 1]).all()
    assert (predictions.code_order[:, 1] == -1).all()


@pytest.mark.posix
def test_pipes_are_refused_because_they_can_be_read_once_only(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="got a pipe or device"):
        read_rows(tmp_path / "pipe")


@pytest.mark.parametrize("pair", ["gold", "reference=", "truth=label"])
def test_a_mapping_that_maps_nothing_is_refused(pair: str) -> None:
    with pytest.raises(InputError, match="expected COLUMN=NAME"):
        parse_mapping([pair])


def test_another_file_does_not_go_into_the_same_run(tmp_path: Path) -> None:
    first = write_jsonl(tmp_path / "a.jsonl", [row()])
    second = write_jsonl(tmp_path / "b.jsonl", [row("b")])
    import_run(first, tmp_path / "run", {})
    import_run(first, tmp_path / "run", {})
    with pytest.raises(RunSettingsError, match="data.sha256"):
        import_run(second, tmp_path / "run", {})


@pytest.mark.parametrize(
    ("column", "extreme"),
    [
        ("log_probabilities", [0.0, -9999.0]),  # what servers write for "not among the top"
        ("logits", [800, 0]),
        ("logits", [3.4e38, -3.4e38]),  # what others write for an answer that cannot be chosen
        ("probabilities", [1.0, 0.0]),
    ],
)
@pytest.mark.parametrize("swapped", [range(0, 24, 4), range(24)])
def test_extreme_values_are_imported_and_every_report_shows_them(
    tmp_path: Path, column: str, extreme: list[float], swapped: range
) -> None:
    made = [
        {
            "id": f"i{n}",
            "family": f"f{n // 2}",
            "reference": n % 2,
            "kind": "boolean",
            "variant": ("base", "counterfactual")[n % 2],
            column: extreme[::-1] if n in swapped else extreme,
        }
        for n in range(24)
    ]
    source = write_jsonl(tmp_path / "rows.jsonl", made)
    import_run(source, tmp_path / "run", {"arm": "a", "seed": 1})
    for words in (
        ["report", tmp_path / "run", "--json", "--resamples", "100"],
        ["compare", tmp_path / "run", tmp_path / "run", "--json", "--resamples", "100"],
        ["calibrate", tmp_path / "run", "--force", "--out", tmp_path / "calibration.json"],
    ):
        result = CliRunner().invoke(main, [str(word) for word in words])
        assert isinstance(result.exception, SystemExit | None), result.exc_info
        assert result.exit_code in (0, 1)
        if words[0] != "calibrate":
            assert result.exit_code == 0, result.output
            json.loads(result.stdout)


def test_objects_without_a_number_name_no_answers(tmp_path: Path) -> None:
    """Neither names nor an order of the answers are there, so the import asks for them."""
    no_number = {"label": "yes", "probabilities": {"yes": None, "no": None}}
    path = write_jsonl(tmp_path / "t.jsonl", [{"id": n, **no_number} for n in range(3)])
    with pytest.raises(ShapeError, match="Name the answers in their order: --options"):
        read_rows(path)


def test_a_logit_beyond_any_floating_point_number_of_a_model_is_refused(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "rows.jsonl", [row(probabilities=None, logits=[1e39, 0.0])])
    with pytest.raises(RecordError, match=r"from -3.4e\+38 to 3.4e\+38, got \[1e\+39, 0.0\]"):
        import_run(source, tmp_path / "run", {})
    assert not (tmp_path / "run").exists()


def test_a_row_without_an_answer_has_the_number_of_answers_of_its_kind(tmp_path: Path) -> None:
    def refused(**more: Any) -> Path:
        return write_jsonl(
            tmp_path / "rows.jsonl",
            [row("a"), row("b", probabilities=None, status="refused", **more)],
        )

    frame = read_rows(refused(kind="boolean")).frame
    assert frame.filter(pl.col("id") == "b")["n_choices"].to_list() == [2]
    with pytest.raises(RecordError, match=r"n_choices: a row without an answer"):
        read_rows(refused(kind="choice"))


def test_items_without_an_answer_have_a_status_and_no_numbers(tmp_path: Path) -> None:
    rows = [
        row("a"),
        row("b", probabilities=None, n_choices=2, status="refused", reason="against the rules"),
        row("c", probabilities=None, n_choices=2, status="missing"),
    ]
    import_run(write_jsonl(tmp_path / "rows.jsonl", rows), tmp_path / "run", {})
    run = read_run(tmp_path / "run")
    assert run.predictions.ids.tolist() == ["a"]
    assert run.provenance.counts.unanswered == {"refused": 1, "missing": 1}
    assert run.provenance.counts.coverage == pytest.approx(1 / 3)
    assert unanswered_ids(run) == {"b", "c"}


def test_an_item_of_two_views_is_answered_in_both_or_in_none(
    tmp_path: Path,
) -> None:
    answered, failed = row("b"), row("b", view=1, probabilities=None, n_choices=2, status="failed")
    with pytest.raises(RecordError, match="no entry"):
        read_rows(write_jsonl(tmp_path / "rows.jsonl", [answered, failed]))
    both = [row("a"), row("a", view=1), answered, failed]
    frame = read_rows(write_jsonl(tmp_path / "rows.jsonl", both)).frame
    assert frame.filter(pl.col("status").is_not_null())["reason"].to_list() == ["view 1: failed"]
    assert frame.filter(pl.col("status").is_null())["id"].to_list() == ["a", "a"]


def test_rounded_probabilities_are_those_of_a_server(tmp_path: Path) -> None:
    """Two decimals: a sum may miss 1 by half a unit per answer, and 0.00 is less than 0.005."""
    rows = [
        row("a", probabilities=[0.33, 0.33, 0.33], reference=0),
        row("b", probabilities=[0.99, 0.01, 0.0], reference=2),
    ]
    import_run(write_jsonl(tmp_path / "rows.jsonl", rows), tmp_path / "run", {})
    run = read_run(tmp_path / "run")
    assert run.provenance.rounded_to == 2
    assert np.exp(run.predictions.logits[1, 0, 2]) == pytest.approx(0.005)
    experiment = Experiment.read([tmp_path / "run"])
    notes = experiment.evaluation(experiment.runs[0]).notes
    (note,) = [
        note_of_run for note_of_run in notes if isinstance(note_of_run, RoundedProbabilities)
    ]
    assert (note.censored, note.nll[1]) == (1, math.inf)


def test_the_outcome_that_a_row_claims_is_compared(tmp_path: Path) -> None:
    options = ImportOptions(mapping={"correct": "right"})
    path = write_jsonl(tmp_path / "rows.jsonl", [row("a", right=True), row("b", right=False)])
    message = r":2 \(id b\): the log counts this answer as wrong; read as answer 1 and reference 1"
    with pytest.raises(RecordError, match=message):
        read_rows(path, options)


def test_articles_name_families(tmp_path: Path) -> None:
    long = "A long article. " * 20
    rows = [row("a-1", text=long), row("a-2", text=long), row("b-1", text="short")]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    families = read_rows(path, ImportOptions(family_from="text")).frame["family"]
    assert families.n_unique() == 2
    assert families[2] == "short"
    by_id = ImportOptions(family_from=r"id~^(.+)-\d$", domain_from="id")
    assert read_rows(path, by_id).frame["family"].to_list() == ["a", "a", "b"]
    with pytest.raises(InputError, match="not a regular expression"):
        read_rows(path, ImportOptions(family_from="id~("))
    with pytest.raises(RecordError, match="no value at article; .*id, probabilities"):
        read_rows(path, ImportOptions(family_from="article"))


def test_answers_that_are_not_listed_are_bounded_by_the_ceiling(tmp_path: Path) -> None:
    """By hand: 0.6 and 0.3 listed, two others at most 0.05 each, then a reference among them."""
    listed = [math.log(0.6), math.log(0.3), None, None]
    rows = [
        row(str(at), probabilities=None, logits=listed, ceiling=math.log(0.05), reference=at % 3)
        for at in range(3)
    ]
    import_run(write_jsonl(tmp_path / "rows.jsonl", rows[:2]), tmp_path / "listed", {"arm": "a"})
    experiment = Experiment.read([tmp_path / "listed"])
    (note,) = (
        note_of_run
        for note_of_run in experiment.evaluation(experiment.runs[0]).notes
        if isinstance(note_of_run, RoundedProbabilities)
    )
    low, high = (-np.log([0.6 / total, 0.3 / total]).mean() for total in (0.9, 1.0))
    assert note.nll == pytest.approx((low, high))
    assert (note.accuracy, note.undecided, note.censored) == ((0.5, 0.5), 0, 0)
    import_run(write_jsonl(tmp_path / "rows.jsonl", rows), tmp_path / "run", {"arm": "a"})
    experiment = Experiment.read([tmp_path / "run"])
    (note,) = (
        note_of_run
        for note_of_run in experiment.evaluation(experiment.runs[0]).notes
        if isinstance(note_of_run, RoundedProbabilities)
    )
    least = -np.log([0.6 / 0.9, 0.3 / 0.9, 0.05 / 0.95]).mean()
    assert note.nll[0] == pytest.approx(least)
    assert (note.nll[1], note.censored) == (math.inf, 1)
    report = CliRunner().invoke(main, ["report", str(tmp_path / "run"), "--full"]).stdout
    assert_says(report, "most probable tokens", "NLL is at least")
    bad: list[tuple[list[Any], Any, str]] = [
        ([None, None], -3.0, "expected a listed answer, got none"),
        ([0.0, None], None, "expected finite numbers"),
        ([0.0, None], "low", "expected finite numbers"),
    ]
    for logits, ceiling, words in bad:
        wrong = row(probabilities=None, logits=logits, ceiling=ceiling)
        with pytest.raises(RecordError, match=words):
            read_rows(write_jsonl(tmp_path / "rows.jsonl", [wrong]))


def test_any_of_several_right_answers_counts(tmp_path: Path) -> None:
    """By hand: the first and the last answer are right, and the models prefer different ones."""
    logits_of = {"a": [0.0, 1.0, 2.0], "b": [1.0, 2.0, 0.0]}
    for name, logits in logits_of.items():
        rows = [
            row(
                "x", probabilities=None, logits=[logit * 0.7 for logit in logits], reference=[0, 2]
            ),
            row("y", probabilities=None, logits=logits, reference=1),
        ]
        path = write_jsonl(tmp_path / f"{name}.jsonl", rows)
        with pytest.raises(ShapeError, match=r"give --multi any, .* \(the first: x\)"):
            read_rows(path)
        options = ImportOptions(multi="any")
        import_run(path, tmp_path / name, {"arm": name, "seed": 1}, options)
    # Each run has its own most probable right answer; they are compared all the same.
    experiment = Experiment.read([tmp_path / "a", tmp_path / "b"], Settings(resamples=100))
    a, b = experiment.runs
    assert (a.predictions.reference.tolist(), b.predictions.reference.tolist()) == ([2, 1], [0, 1])
    assert experiment.same_items
    accuracy = experiment.comparisons.of_first[0].groups[0].metrics["accuracy"]
    assert (accuracy.a.value, accuracy.b.value) == (0.5, 0.5)
    p = np.exp(np.array(logits_of["a"]) * 0.7)
    q = np.exp(np.array(logits_of["a"]))
    expected = -np.log([(p[0] + p[2]) / p.sum(), q[1] / q.sum()]).mean()
    (note,) = (
        note_of_run
        for note_of_run in experiment.evaluation(a).notes
        if isinstance(note_of_run, SeveralRight)
    )
    assert note.items == 1
    assert note.nll_of_any == pytest.approx(expected)
    # In slices, as runs of more items are read.
    items = read_items(tmp_path / "a" / "predictions.parquet", "single")
    assert items.correct.tolist() == a.scored().correct.tolist() == [True, False]
    with pytest.raises(InputError, match="several right answers.* NLL"):
        CalibrationItems.from_predictions(a.predictions, "single")
    other = write_jsonl(
        tmp_path / "other.jsonl", [row("x", reference=[0, 1], probabilities=[0.2, 0.3, 0.5])]
    )
    import_run(other, tmp_path / "other", {"arm": "o", "seed": 1}, ImportOptions(multi="any"))
    assert not Experiment.read([tmp_path / "a", tmp_path / "other"]).same_items
    views = [row("x", reference=[0, 1], view=view) for view in range(2)]
    with pytest.raises(RecordError, match="several right answers: .*one view"):
        read_rows(write_jsonl(tmp_path / "views.jsonl", views), ImportOptions(multi="any"))


def test_thresholds_need_probabilities(tmp_path: Path) -> None:
    rows = [row(str(at), probabilities=None, answer=at % 2, n_choices=2) for at in range(40)]
    import_run(write_jsonl(tmp_path / "rows.jsonl", rows), tmp_path / "run", {"arm": "a"})
    command = ["thresholds", str(tmp_path / "run"), "--target-error", "0.5"]
    result = CliRunner().invoke(main, [*command, "--out", str(tmp_path / "t.json")])
    assert result.exit_code == 1
    assert_says(result.stderr, "answers and no probabilities")
    assert not (tmp_path / "t.json").exists()
