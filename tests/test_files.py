"""Reading and writing files, against what the file system holds afterwards."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pact_eval._files import (
    MOST_TEXT_BYTES,
    read_json,
    read_lines,
    read_text,
    read_toml,
    sha256_of_file,
    write_atomically,
)
from pact_eval.calibration.temperatures import read_calibrator
from pact_eval.errors import InputError
from pact_eval.evaluation.arms.published import read_metric_table
from pact_eval.evaluation.arms.table_results import read_clear_changes
from pact_eval.models import read_json_object, safetensors_header
from pact_eval.preregistration.criteria import read_hypotheses
from pact_eval.preregistration.registration import read_lock
from pact_eval.prompts.requests import read_context, read_schema
from pact_eval.runs.folder import open_run
from pact_reports.figures.style import read_palette

READERS: list[Callable[[Path], object]] = [
    read_text,
    read_json,
    read_toml,
    lambda path: list(read_lines(path)),
    sha256_of_file,
    read_calibrator,
    read_json_object,
    safetensors_header,
    read_hypotheses,
    read_lock,
    read_clear_changes,
    read_metric_table,
    read_schema,
    read_palette,
]


def a_link_to_a_device_without_end(folder: Path) -> Path:
    (folder / "run.json").symlink_to("/dev/zero")
    return folder / "run.json"


def a_pipe_that_nobody_writes(folder: Path) -> Path:
    os.mkfifo(folder / "run.json")
    return folder / "run.json"


@pytest.mark.posix
@pytest.mark.parametrize("made", [a_link_to_a_device_without_end, a_pipe_that_nobody_writes])
@pytest.mark.parametrize("read", [*READERS, lambda path: open_run(path.parent)])
def test_pipes_and_devices_are_refused_instead_of_read_without_end(
    tmp_path: Path, made: Callable[[Path], Path], read: Callable[[Path], object]
) -> None:
    with pytest.raises(InputError, match=r"run\.json: expected a file, got a pipe or device"):
        read(made(tmp_path))


@pytest.mark.parametrize(
    "read", [read for read in READERS if read not in (sha256_of_file, safetensors_header)]
)
def test_texts_beyond_the_limit_are_refused(tmp_path: Path, read: Callable[[Path], object]) -> None:
    path = tmp_path / "sparse"
    path.touch()
    os.truncate(path, MOST_TEXT_BYTES + 1)
    with pytest.raises(InputError, match="of at most 67,108,864 bytes, got more"):
        read(path)


def test_a_context_is_a_file_of_limited_size_or_a_text(tmp_path: Path) -> None:
    path = tmp_path / "context.txt"
    path.touch()
    os.truncate(path, MOST_TEXT_BYTES + 1)
    with pytest.raises(InputError, match="of at most 67,108,864 bytes"):
        read_context(str(path))
    assert read_context("/dev/zero is a device.") == "/dev/zero is a device."


@pytest.mark.parametrize(
    ("read", "name", "text", "words"),
    [
        (read_toml, "x.toml", "a = " + "1" * 5_000, "a number has more than 4,300 digits"),
        (read_hypotheses, "x.toml", "a = " + "1" * 5_000, "a number has more than 4,300 digits"),
        (read_json, "x.json", "1" * 5_000, "an integer has more than 4,300 digits"),
        (read_toml, "x.toml", "a = 1\nb = ]", "x.toml:2: not valid TOML"),
        (read_toml, "x.toml", "a = " + "[" * 9_000, "nested too deeply"),
    ],
)
def test_numbers_and_brackets_that_python_refuses_are_messages(
    tmp_path: Path, read: Callable[[Path], object], name: str, text: str, words: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words):
        read(tmp_path / name)


@pytest.mark.posix
def test_a_link_stays_a_link_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old", encoding="utf-8")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    write_atomically(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text(encoding="utf-8") == "new"


@pytest.mark.posix
def test_a_pipe_is_written_and_stays_a_pipe(tmp_path: Path) -> None:
    """As /dev/stdout: a rename over it would take it away from its reader."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, "page")
    reader.join(timeout=10)
    assert received == [b"page"]
    assert pipe.is_fifo()


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(InputError, match="taken"):
        write_atomically(tmp_path / "taken", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_bytes_that_are_not_utf8_are_located(tmp_path: Path) -> None:
    path = tmp_path / "text.json"
    path.write_bytes(b"{\r\n\xff}")
    with pytest.raises(InputError, match=r"text\.json:2: .*byte 4"):
        read_json(path)
    path.write_bytes(b"a\r\nb")
    assert read_text(path) == "a\r\nb"
