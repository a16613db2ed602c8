"""Steps and their shares, against sums made by hand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from steps import Steps

from pact_eval._files import sha256_of_file, write_atomically
from pact_eval.progress import step, tracked, watched, wrote


def test_a_step_inside_counts_as_much_as_it_says() -> None:
    with watched(Steps()), step("Page", 100) as page:
        with step("Tables", 4, counts=20) as tables:
            tables.done += 1
            assert page.share == pytest.approx(0.05)  # a quarter of 20 of 100
        assert page.share == pytest.approx(0.20)  # all of it when it ends, though 3 are left
        with step("Notes") as notes:
            assert notes.share is None
            assert page.share == pytest.approx(0.20)
        with step("Figures", counts=80), step("Drawing", 2, "figures") as drawing:
            drawing.done += 1
            # A step without a total has the share of the step inside.
            assert page.share == pytest.approx(0.20 + 0.80 / 2)


def test_bytes_inside_bytes_count_in_full_and_parts_do_not() -> None:
    with watched(Steps()), step("Reading", 200, "bytes") as reading:
        with step("Reading a", 50, "bytes") as inner:
            inner.done = 25
            assert reading.share == 0.125
        with step("Hashing", 50, "bytes", counts=0):
            pass
        assert reading.share == 0.25
    with watched(Steps()), step("Outer", 10) as outer, step("Inner", 10):
        assert outer.counted(outer) == 0


def test_what_ends_a_step_ends_those_inside() -> None:
    seen = Steps()
    with watched(seen):
        with pytest.raises(ZeroDivisionError), step("Outer"), step("Inner"):
            _ = 1 / 0
        with step("Next"):
            pass
    assert [progress.name for progress in seen.failed] == ["Inner", "Outer"]
    assert [progress.name for progress in seen.outer] == ["Outer", "Next"]


def test_a_loop_that_is_left_early_does_not_stay_open() -> None:
    seen = Steps()
    with watched(seen):
        items = tracked([1, 2, 3], "Reading", "records")
        with step("Outer"):
            next(items)
        del items  # closed after the step around it
        with step("Next"):
            pass
    assert [progress.name for progress in seen.all] == ["Outer", "Reading", "Next"]
    assert [progress.name for progress in seen.outer] == ["Outer", "Next"]


def test_threads_and_unwatched_code_have_no_steps() -> None:
    seen = Steps()
    with watched(seen), ThreadPoolExecutor(1) as pool:
        assert list(pool.submit(list, tracked("ab", "Reading", "letters")).result()) == ["a", "b"]
    with step("Outside", 2) as outside:
        outside.done += 1
    assert (outside.share, seen.all) == (0.5, [])
    wrote(Path("nowhere"))  # nobody is told


def test_files_tell_what_was_hashed_and_written(tmp_path: Path) -> None:
    seen = Steps()
    path = tmp_path / "weights"
    with watched(seen):
        write_atomically(path, bytes(3_000_000))
        sha256_of_file(path)
        with pytest.raises(ZeroDivisionError):
            write_atomically(tmp_path / "page", str(1 / 0))
    assert seen.files == [path]
    (hashed,) = seen.all
    assert (hashed.name, hashed.unit, hashed.done) == ("Hashing weights", "bytes", 3_000_000)
