"""The seal of a run and the checks of its rows. Source of truth: SHA-256 of hashlib, the examples
of altered runs that were once accepted, and every single bit of a small run."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import signal
import subprocess
from pathlib import Path

import msgspec
import polars as pl
import pytest
from commands import command_line
from run_frames import edit_rows, edit_run, rows, seal_again, without_seal, write_run

from pact_eval._files import sha256_of_file
from pact_eval.errors import RunError, TamperedError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.folder import RunWriter, open_run, read_run
from pact_eval.runs.provenance import Seal, write_provenance
from pact_eval.runs.rows import check_values
from pact_eval.runs.seal import references_sha256, seal_digest, sealed

ROWS, CALIBRATION = "predictions.parquet", "calibration.json"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", rows(1, families=6, k=2), arm="pact", seed=17)


def test_the_seal_against_hashlib_and_counts(run: Path) -> None:
    seal = open_run(run).provenance.seal
    assert seal is not None
    frame = pl.read_parquet(run / ROWS)
    assert seal.predictions_sha256 == hashlib.sha256((run / ROWS).read_bytes()).hexdigest()
    of_items = dict(zip(frame["id"], frame["reference"], strict=True))
    text = "".join(f"{len(name)}:{name}={of_items[name]};" for name in sorted(of_items))
    assert seal.references_sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert (seal.items, seal.views, seal.k) == (12, 24, 2)
    assert "parts" not in json.loads((run / "run.json").read_text())


def test_the_hash_of_references_ignores_the_order_of_rows_only() -> None:
    frame = rows(1, families=6, k=2)
    assert references_sha256(frame.reverse()) == references_sha256(frame)
    other = frame.with_columns(reference=1 - pl.col("reference").clip(0, 1))
    assert references_sha256(other) != references_sha256(frame)


EDITS = {
    # 18 of 24 items removed: accuracy 83.3, no message.
    "fewer items": lambda frame: frame.head(12),
    # Every reference set to the prediction: accuracy 100%.
    "flattered": lambda frame: frame.with_columns(
        reference=pl.col("logits").list.arg_max().first().over("id").cast(pl.Int16)
    ),
    # Answer mass 7.5: "109.5%".
    "answer mass": lambda frame: frame.with_columns(answer_mass=pl.lit(7.5, dtype=pl.Float32)),
    # Three nats for every reference: "H1 SUPPORTED, REGISTERED BEFORE THE RUNS".
    "logits": lambda frame: frame.with_columns(
        logits=pl.concat_list(pl.col("logits").list.get(0) + 3, pl.col("logits").list.slice(1))
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edited_rows_are_refused(run: Path, edit: str) -> None:
    EDITS[edit](pl.read_parquet(run / ROWS)).write_parquet(run / ROWS)
    with pytest.raises(TamperedError, match=r"predictions.parquet: changed .* sealed"):
        read_run(run)
    with pytest.raises(TamperedError):
        Experiment.read([run])


def test_the_rows_of_another_run_are_refused(run: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", rows(2, families=6, k=2), arm="ce_only", seed=17)
    shutil.copy(other / ROWS, run / ROWS)
    with pytest.raises(TamperedError, match="changed since"):
        read_run(run)


@pytest.mark.parametrize(
    ("key", "value"), [("arm", "other"), ("seed", 18), ("wall_seconds", 1.5), ("note", "new")]
)
def test_an_edited_run_json_is_refused(run: Path, key: str, value: object) -> None:
    path = run / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(TamperedError, match=r"run.json: changed .* sealed"):
        open_run(run)


def test_a_changed_run_is_not_sealed_again_by_repeating_its_command(run: Path) -> None:
    recorded = json.loads((run / "run.json").read_text())
    EDITS["flattered"](pl.read_parquet(run / ROWS)).write_parquet(run / ROWS)
    with pytest.raises(TamperedError):
        RunWriter(run, recorded["settings"], {})


def test_a_label_that_is_added_later_is_sealed(run: Path) -> None:
    before = open_run(run).provenance.seal
    assert before is not None
    recorded = json.loads((run / "run.json").read_text())
    RunWriter(run, recorded["settings"], {"command_line": ["elsewhere"], "arm": "pact"}).close()
    assert open_run(run).provenance.seal == before
    RunWriter(run, recorded["settings"], {"data": "holdout.jsonl", "role": "calibration"}).close()
    after = open_run(run).provenance.seal
    assert after is not None
    assert after.predictions_sha256 == before.predictions_sha256
    assert seal_digest(after) != seal_digest(before)


def test_a_run_without_its_seal_is_refused(run: Path) -> None:
    # Without the seal, every value in the rows could be edited behind a warning.
    with pytest.raises(TamperedError, match=r"run.json: the seal .* removed"):
        open_run(without_seal(run))


def test_a_run_of_the_format_without_seals_is_refused(run: Path) -> None:
    recorded = json.loads((without_seal(run) / "run.json").read_text()) | {"format_version": 2}
    (run / "run.json").write_text(json.dumps(recorded))
    with pytest.raises(RunError, match=r"format 3, got 2; .* no seal"):
        open_run(run)


def test_a_seal_that_lacks_a_value_is_told(run: Path) -> None:
    recorded = json.loads((run / "run.json").read_text())
    del recorded["seal"]["items"]
    (run / "run.json").write_text(json.dumps(recorded))
    with pytest.raises(RunError, match="seal: expected items"):
        open_run(run)


def test_a_part_that_is_copied_under_another_number_loses_nothing(tmp_path: Path) -> None:
    # A copy of a part made the last step fail, after all parts were removed.
    frame = rows(1, families=6, k=2)
    with RunWriter(tmp_path / "a", {"k": 2}, {}) as writer:
        writer.write_part(0, frame)
    parts = tmp_path / "a" / "parts"
    shutil.copy(parts / "part-000000.parquet", parts / "part-000001.parquet")
    with pytest.raises(TamperedError, match=r"part-000001.parquet: not the part"):
        RunWriter(tmp_path / "a", {"k": 2}, {})
    (parts / "part-000001.parquet").unlink()
    with RunWriter(tmp_path / "a", {"k": 2}, {}) as writer:
        writer.finish(0, {})
    assert len(read_run(tmp_path / "a").predictions) == 12


def test_rows_that_are_put_into_an_unfinished_run_are_refused(run: Path, tmp_path: Path) -> None:
    with RunWriter(tmp_path / "a", {"k": 2}, {}) as writer:
        writer.write_part(0, rows(1, families=3, k=2))
    shutil.copy(run / ROWS, tmp_path / "a")
    with pytest.raises(TamperedError, match="not written by this run"):
        read_run(tmp_path / "a")
    with pytest.raises(TamperedError, match="not written by this run"):
        RunWriter(tmp_path / "a", {"k": 2}, {})
    assert (tmp_path / "a" / "parts" / "part-000000.parquet").exists()


WRITE = """
import sys, time
sys.path.insert(0, sys.argv[2])
from pathlib import Path
import polars as pl
from run_frames import rows
from pact_eval.runs.folder import RunWriter
with RunWriter(Path(sys.argv[1]), {"k": 2}, {"arm": "a", "seed": 1}) as writer:
    for number in range(8):
        if not writer.has_part(number):
            frame = rows(number, families=3, k=2)
            ids = pl.format("{}-{}", "id", pl.lit(number))
            writer.write_part(number, frame.with_columns(id=ids))
            print(number, flush=True)
    writer.finish(0, {})
"""


@pytest.mark.slow
@pytest.mark.posix
def test_a_killed_and_resumed_run_is_sealed_and_equal(tmp_path: Path) -> None:
    command = command_line("python", "-c", WRITE)
    tests = str(Path(__file__).parents[1])
    subprocess.run([*command, str(tmp_path / "whole"), tests], check=True, capture_output=True)
    kills = 0
    while True:
        process = subprocess.Popen(
            [*command, str(tmp_path / "cut"), tests], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(3):
            process.stdout.readline()
        if process.poll() is None and kills < 3:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.communicate()
        if (tmp_path / "cut" / ROWS).exists():
            break
    assert kills >= 2
    whole, cut = (open_run(tmp_path / name).provenance.seal for name in ("whole", "cut"))
    assert whole is not None
    assert cut is not None
    assert cut.predictions_sha256 == whole.predictions_sha256
    assert sha256_of_file(tmp_path / "cut" / ROWS) == cut.predictions_sha256


@pytest.mark.parametrize(
    ("where", "name", "words"),
    [
        ("seal", "items", "items: the rows have 12, recorded are 13"),
        ("seal", "views", "views: the rows have 24, recorded are 13"),
        ("seal", "k", "K: the rows have 2, recorded are 13"),
        ("counts", "items", "items: the rows have 12, recorded are 13"),
        ("counts", "views", "views: the rows have 24, recorded are 13"),
        ("settings", "k", "K: the rows have 2, recorded are 13"),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_forged_seal_with_other_counts_is_refused(
    run: Path, monkeypatch: pytest.MonkeyPatch, where: str, name: str, words: str, streamed: bool
) -> None:
    recorded = json.loads((run / "run.json").read_text())
    recorded[where] = recorded.get(where, {}) | {name: 13}
    values = {key: value for key, value in recorded["seal"].items() if key != "provenance_sha256"}
    write_provenance(run, sealed(recorded, values))
    with pytest.raises(TamperedError, match=words):
        read_run(run)
    if streamed:
        monkeypatch.setattr("pact_eval.evaluation.experiment.ITEMS_IN_MEMORY", 0)
    experiment = Experiment.read([run], Settings(resamples=100))
    with pytest.raises(TamperedError, match=words):
        experiment.evaluation(experiment.runs[0])


VALUES: dict[str, tuple[pl.Expr | pl.Series, str]] = {
    "a NaN": (pl.lit([math.nan, 0.0], dtype=pl.List(pl.Float32)).alias("logits"), "finite"),
    "infinity": (pl.lit([math.inf, 0.0], dtype=pl.List(pl.Float32)).alias("logits"), "finite"),
    "no number": (pl.lit([None, 0.0], dtype=pl.List(pl.Float32)).alias("logits"), "finite"),
    "reference 9": (pl.lit(9, dtype=pl.Int16).alias("reference"), "number of answers - 1, got 9"),
    "answer -1": (pl.lit(-1, dtype=pl.Int16).alias("reference"), "from 0 to .*, got -1"),
    "mass 7.5": (pl.lit(7.5, dtype=pl.Float32).alias("answer_mass"), "from 0 to 1, got 7.5"),
    "mass NaN": (pl.lit(math.nan, dtype=pl.Float32).alias("answer_mass"), "from 0 to 1, got nan"),
    "no tokens": (pl.lit(0, dtype=pl.Int32).alias("prompt_tokens"), "of at least 1, got 0"),
    "a letter twice": (pl.lit([1, 1], dtype=pl.List(pl.Int16)).alias("code_order"), "index once"),
    "letter 70": (pl.lit([0, 70], dtype=pl.List(pl.Int16)).alias("code_order"), "index once"),
    "kind": (pl.lit("essay").alias("kind"), "kind: expected choice, boolean, score, got 'essay'"),
    "two kinds": (pl.Series("kind", ["score", "boolean"] * 12), "same value in the 2 views"),
    "two families": (pl.Series("family", ["a", "b"] * 12), "family: expected the same value"),
    "no kind": (pl.lit(None, dtype=pl.String).alias("kind"), "kind: expected a value in every row"),
}


@pytest.mark.parametrize(
    ("name", "streamed"),
    # A streamed report does not read prompt lengths, which no number of it depends on.
    [(name, False) for name in VALUES] + [(name, True) for name in VALUES if name != "no tokens"],
)
def test_values_that_no_model_gives_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, streamed: bool
) -> None:
    """A seal is no proof of sense: these rows are sealed, as another tool could do it."""
    frame = rows(1, families=6, k=2).with_columns(
        kind=pl.lit("boolean"),
        n_choices=pl.lit(2, dtype=pl.Int16),
        reference=pl.lit(0, dtype=pl.Int16),
        logits=pl.lit([0.5, 0.0], dtype=pl.List(pl.Float32)),
        code_order=pl.lit([0, 1], dtype=pl.List(pl.Int16)),
    )
    run = write_run(tmp_path / "run", frame, arm="a", seed=1)
    change, words = VALUES[name]
    edit_rows(run, change)
    monkeypatch.setattr("pact_eval.evaluation.experiment.ITEMS_IN_MEMORY", 0 if streamed else 10**6)
    experiment = Experiment.read([run], Settings(resamples=100))
    with pytest.raises(RunError, match=words):
        experiment.evaluation(experiment.runs[0])


def test_an_imported_probability_of_zero_is_allowed() -> None:
    frame = pl.DataFrame({"n_choices": [2], "logits": [[-math.inf, 0.0]]})
    check_values(frame, 1)


def test_the_digest_covers_every_value_of_the_seal() -> None:
    seal = Seal("a", "b", "c", 1, 2, 2)
    hashes = ("predictions_sha256", "references_sha256", "provenance_sha256")
    changes: dict[str, str | int] = dict.fromkeys(hashes, "x") | dict.fromkeys(
        ("items", "views", "k"), 3
    )
    others = [msgspec.structs.replace(seal, **{key: value}) for key, value in changes.items()]
    assert len({seal_digest(seal_variant) for seal_variant in (seal, *others)}) == 7


def test_an_edited_copy_with_a_seal_of_its_own_has_another_digest(run: Path) -> None:
    before = open_run(run).provenance.seal
    assert before is not None
    edit_run(run, arm="other")
    after = open_run(run).provenance.seal
    assert after is not None
    assert seal_digest(after) != seal_digest(before)
    seal_again(run, json.loads((run / "run.json").read_text()) | {"arm": "pact"})
    again = open_run(run).provenance.seal
    assert again == before
