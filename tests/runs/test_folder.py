from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner
from full_disks import files_of_at_most
from messages import assert_says
from polars.testing import assert_frame_equal
from run_frames import edit_rows, frame_of, seal_again

from pact_cli.main import main
from pact_eval._json import Json
from pact_eval.errors import InputError, RunError, RunSettingsError, TamperedError
from pact_eval.runs.folder import RunWriter, read_run
from pact_eval.runs.provenance import FORMAT_VERSION
from pact_eval.runs.rows import SCHEMA

SETTINGS: dict[str, Json] = {
    "data": {"sha256": "aa"},
    "k": 2,
    "base": {"sha256": "bb", "revision": None},
}


def rows(start: int, count: int, k: int = 2) -> pl.DataFrame:
    items = [(number, view) for number in range(start, start + count) for view in range(k)]
    return frame_of(
        id=[f"r{number:03d}" for number, _ in items],
        family=[f"f{number // 2}" for number, _ in items],
        kind=["boolean"] * len(items),
        variant=["base"] * len(items),
        reference=[number % 2 for number, _ in items],
        view=[view for _, view in items],
        code_order=[[0, 1] if view == 0 else [1, 0] for _, view in items],
        logits=[[0.25 * number, 1.0] for number, _ in items],
        prompt_tokens=[100] * len(items),
        answer_mass=[0.5] * len(items),
    )


def finished(folder: Path) -> Path:
    with RunWriter(folder, SETTINGS, {"arm": "pact", "seed": 17}) as writer:
        writer.write_part(0, rows(0, 4))
        writer.write_part(1, rows(4, 3))
        writer.finish(1.5, {"counts": {"items": 7, "views": 14}})
    return folder


def test_a_finished_run_holds_every_row_and_its_provenance(tmp_path: Path) -> None:
    folder = finished(tmp_path / "runs" / "a")
    assert sorted(p.name for p in folder.iterdir()) == [".lock", "predictions.parquet", "run.json"]
    assert_frame_equal(
        pl.read_parquet(folder / "predictions.parquet"), pl.concat([rows(0, 4), rows(4, 3)])
    )
    run = read_run(folder)
    assert run.provenance.recorded["format_version"] == FORMAT_VERSION
    assert run.provenance.recorded["status"] == "complete"
    assert run.provenance.recorded["arm"] == "pact"
    assert run.provenance.recorded["wall_seconds"] == 1.5
    assert run.settings == SETTINGS
    assert len(run.predictions) == 7
    assert run.predictions.k == 2


def test_an_interrupted_run_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    whole = finished(tmp_path / "whole")
    with RunWriter(tmp_path / "cut", SETTINGS, {}) as writer:
        writer.write_part(1, rows(4, 3))
        writer.add_wall_seconds(1.0)
    with RunWriter(tmp_path / "cut", SETTINGS, {}) as writer:
        assert not writer.complete
        assert writer.has_part(1)
        assert not writer.has_part(0)
        assert len(writer.rows()) == 6
        writer.write_part(0, rows(0, 4))
        writer.finish(0.5, {})
    cut = tmp_path / "cut" / "predictions.parquet"
    assert cut.read_bytes() == (whole / "predictions.parquet").read_bytes()
    assert read_run(tmp_path / "cut").provenance.recorded["wall_seconds"] == 1.5


def test_a_part_cut_short_by_a_kill_while_writing_is_not_taken_for_one(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "a", SETTINGS, {}) as writer:
        writer.write_part(0, rows(0, 4))
    (tmp_path / "a" / "parts" / ".part-000001.parquet.tmp").write_bytes(b"PAR1 half")
    with RunWriter(tmp_path / "a", SETTINGS, {}) as writer:
        assert len(writer.rows()) == 8
        assert not writer.has_part(1)


def test_a_run_without_a_row_may_begin_anew_with_other_settings(tmp_path: Path) -> None:
    # A wrong base model failed after the folder was made, and the right one was then refused.
    with RunWriter(tmp_path / "a", SETTINGS, {}):
        pass
    with RunWriter(tmp_path / "a", SETTINGS | {"k": 4}, {"arm": "x"}) as writer:
        writer.write_part(0, rows(0, 4, k=4))
        writer.finish(0, {})
    assert read_run(tmp_path / "a").settings["k"] == 4


def test_a_run_that_was_killed_while_it_was_closed_is_closed_again(tmp_path: Path) -> None:
    whole = finished(tmp_path / "whole")
    cut = tmp_path / "cut"
    with RunWriter(cut, SETTINGS, {}) as writer:
        writer.write_part(0, rows(0, 4))
        writer.write_part(1, rows(4, 3))
    # Killed after the rename, before the parts were removed.
    shutil.copy(whole / "predictions.parquet", cut)
    provenance = json.loads((cut / "run.json").read_text())
    seal_again(cut, provenance | {"status": "complete"})
    (cut / ".run.json.tmp").write_text("half")
    with RunWriter(cut, SETTINGS, {}) as writer:
        assert writer.complete
    assert not (cut / "parts").exists()
    assert len(read_run(cut).predictions) == 7


def test_parts_are_renamed_into_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    with RunWriter(tmp_path / "a", SETTINGS, {}) as writer:
        monkeypatch.setattr(Path, "replace", fail)
        with pytest.raises(KeyboardInterrupt):
            writer.write_part(0, rows(0, 4))
        assert not list((tmp_path / "a" / "parts").glob("part-*"))
        assert not writer.has_part(0)


def test_other_files_among_the_parts_are_left_alone(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "a", SETTINGS, {}) as writer:
        writer.write_part(0, rows(0, 4))
    (tmp_path / "a" / "parts" / "part-000000 (copy).parquet").touch()
    with RunWriter(tmp_path / "a", SETTINGS, {}) as writer:
        assert len(writer.rows()) == 8


def test_a_label_may_be_added_but_not_changed(tmp_path: Path) -> None:
    # A rerun once turned seed 17 into seed 18 without a word.
    folder = finished(tmp_path / "a")
    RunWriter(folder, SETTINGS, {"arm": None, "seed": 17, "data": "x.jsonl"}).close()
    provenance = read_run(folder).provenance.recorded
    assert (provenance["arm"], provenance["seed"], provenance["data"]) == ("pact", 17, "x.jsonl")
    with pytest.raises(RunSettingsError, match="seed: .* 17, this command 18"):
        RunWriter(folder, SETTINGS, {"seed": 18})


def test_a_path_that_is_no_unicode_is_only_a_label(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "a", SETTINGS, {"data": "\udcff.jsonl"}) as writer:
        writer.write_part(0, rows(0, 4))
        writer.finish(0, {})
    assert read_run(tmp_path / "a").provenance.recorded["data"] == "?.jsonl"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (pl.col("reference").cast(pl.String), "column reference: expected Int16, got String"),
        (pl.col("logits").list.head(1), "expected one logit and one letter per answer"),
        (pl.col("code_order").list.head(1), "expected one logit and one letter per answer"),
    ],
)
def test_rows_of_another_shape_are_refused(tmp_path: Path, change: pl.Expr, words: str) -> None:
    folder = edit_rows(finished(tmp_path / "a"), change)
    with pytest.raises(RunError, match=words):
        read_run(folder)


def test_other_settings_are_refused_with_their_names(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "a", SETTINGS, {}) as writer:
        writer.write_part(0, rows(0, 4))
    other = SETTINGS | {"k": 4, "base": {"sha256": "cc", "revision": None}}
    with pytest.raises(RunSettingsError) as caught:
        RunWriter(tmp_path / "a", other, {})
    assert_says(caught.value, "base.sha256: ", '"bb"', '"cc"')
    assert_says(caught.value, " k: ", "has 2", "command 4")
    assert "data.sha256" not in str(caught.value)


def test_a_truncated_part_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    with RunWriter(folder, SETTINGS, {}) as writer:
        writer.write_part(0, rows(0, 4))
        writer.write_part(1, rows(4, 3))
    part = folder / "parts" / "part-000001.parquet"
    part.write_bytes(part.read_bytes()[:200])
    with pytest.raises(TamperedError, match=r"part-000001.parquet: not the part .* only its items"):
        RunWriter(folder, SETTINGS, {})
    part.unlink()
    with RunWriter(folder, SETTINGS, {}) as writer:
        assert writer.has_part(0)
        assert not writer.has_part(1)


@pytest.mark.parametrize("keep", [0, 3, 100, -1, -40])
def test_truncated_predictions_are_told_wherever_they_are_cut(tmp_path: Path, keep: int) -> None:
    folder = finished(tmp_path / "a")
    path = folder / "predictions.parquet"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(TamperedError, match=r"predictions.parquet: changed since .* sealed"):
        read_run(folder)


def test_reading_an_unfinished_run_says_how_to_go_on(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "a", SETTINGS, {}) as writer:
        writer.write_part(0, rows(0, 4))
    with pytest.raises(RunError, match=r"not complete .8 views .* repeat the command"):
        read_run(tmp_path / "a")


def test_a_folder_that_is_no_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match="not empty .* not a run"):
        RunWriter(tmp_path, SETTINGS, {})
    with pytest.raises(RunError, match="not a run folder"):
        read_run(tmp_path)
    with pytest.raises(RunError, match="no such run folder"):
        read_run(tmp_path / "missing")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "run.json: not valid JSON .*; restore it from a copy, or remove the run folder"),
        ('{"format_version": 9}', "expected run format 3, got 9"),
    ],
)
def test_damaged_or_later_provenance_is_told(tmp_path: Path, text: str, words: str) -> None:
    folder = finished(tmp_path / "a")
    (folder / "run.json").write_text(text)
    with pytest.raises(RunError, match=words):
        read_run(folder)


def test_predictions_without_a_column_or_a_view_are_told(tmp_path: Path) -> None:
    folder = finished(tmp_path / "a")
    recorded = json.loads((folder / "run.json").read_text())
    frame = pl.read_parquet(folder / "predictions.parquet")
    frame.drop("logits").write_parquet(folder / "predictions.parquet")
    seal_again(folder, recorded)
    with pytest.raises(RunError, match="missing: logits"):
        read_run(folder)
    frame.head(13).write_parquet(folder / "predictions.parquet")
    seal_again(folder, recorded)
    with pytest.raises(RunError, match="2 views .* 7 items, got 13 rows"):
        read_run(folder)


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("column", ["kind", "n_choices", "view", "code_order", "logits"])
def test_a_column_of_nulls_only_is_named(tmp_path: Path, column: str, typed: bool) -> None:
    """One without a type ended `report` with a message of polars, or of numpy."""
    folder = finished(tmp_path / "a")
    dtype = SCHEMA[column] if typed else pl.Null()
    edit_rows(folder, pl.lit(None, dtype).alias(column))
    result = CliRunner().invoke(main, ["report", str(folder), "--resamples", "100"])
    assert result.exit_code == 1
    views = typed and column == "view"
    expected = "expected 1 views for each of 0 items" if views else f"{column}: expected"
    assert f"predictions.parquet: {'column ' * (not typed)}{expected}" in result.output


def test_a_run_with_an_item_without_reference_cannot_be_read(tmp_path: Path) -> None:
    folder = finished(tmp_path / "a")
    reference = pl.when(pl.col("id") == "r001").then(None).otherwise(pl.col("reference"))
    edit_rows(folder, reference.alias("reference"))
    with pytest.raises(RunError, match="1 of 7 items"):
        read_run(folder)


def _hold(folder: str, ready: str) -> None:
    with RunWriter(Path(folder), SETTINGS, {}):
        Path(ready).touch()
        while Path(ready).exists():
            pass


@pytest.mark.posix
def test_a_run_that_does_not_fit_releases_its_lock(tmp_path: Path) -> None:
    # The error kept the writer, and its lock, until it was collected.
    with pytest.raises(InputError) as kept, files_of_at_most(10):
        RunWriter(tmp_path / "run", {"k": 2}, {})
    RunWriter(tmp_path / "run", {"k": 2}, {}).close()
    assert kept.traceback


@pytest.mark.slow
def test_two_processes_cannot_write_one_run(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_hold, args=(str(tmp_path / "a"), str(ready)))
    process.start()
    try:
        while not ready.exists():
            assert process.is_alive()
        with pytest.raises(RunError, match="another process"):
            RunWriter(tmp_path / "a", SETTINGS, {})
    finally:
        ready.unlink(missing_ok=True)
        process.join()
    RunWriter(tmp_path / "a", SETTINGS, {}).close()


@pytest.mark.posix
def test_a_last_write_that_does_not_fit_is_repeated_by_the_same_command(tmp_path: Path) -> None:
    """The parts fit on the disk, the joined file does not: no number is computed twice."""
    unlimited = finished(tmp_path / "unlimited")
    joined = (unlimited / "predictions.parquet").stat().st_size
    with RunWriter(tmp_path / "a", SETTINGS, {}) as writer:
        writer.write_part(0, rows(0, 4))
        writer.write_part(1, rows(4, 3))
        with files_of_at_most(joined - 1), pytest.raises(InputError, match="; free some space"):
            writer.finish(1.0, {})
    with pytest.raises(RunError, match="not complete .14 views"):
        read_run(tmp_path / "a")
    with RunWriter(tmp_path / "a", SETTINGS, {}) as writer:
        assert writer.has_part(0)
        assert writer.has_part(1)
        writer.finish(1.0, {})
    assert (tmp_path / "a/predictions.parquet").read_bytes() == (
        unlimited / "predictions.parquet"
    ).read_bytes()


@pytest.mark.posix
def test_a_file_system_without_locks_is_not_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As NFS without a lock daemon answers, which no test can mount."""

    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refused)
    with pytest.raises(RunError, match=r"\(No locks available\).* local disk"):
        RunWriter(tmp_path / "a", SETTINGS, {})


@pytest.mark.posix
def test_rows_in_a_pipe_are_refused_instead_of_waited_for(tmp_path: Path) -> None:
    folder = finished(tmp_path / "a")
    (folder / "predictions.parquet").unlink()
    os.mkfifo(folder / "predictions.parquet")
    with pytest.raises(RunError, match="got a pipe or device"):
        read_run(folder)
