"""Reading and writing files, against what the file system holds afterwards."""

import os
import threading
from pathlib import Path

import pytest

from pact_eval._files import read_json, read_text, write_atomically
from pact_eval.errors import InputError


def test_a_link_stays_a_link_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old", encoding="utf-8")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    write_atomically(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text(encoding="utf-8") == "new"


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
    assert [each.name for each in tmp_path.iterdir()] == ["taken"]


def test_bytes_that_are_not_utf8_are_located(tmp_path: Path) -> None:
    path = tmp_path / "text.json"
    path.write_bytes(b"{\r\n\xff}")
    with pytest.raises(InputError, match=r"text\.json:2: .*byte 4"):
        read_json(path)
    path.write_bytes(b"a\r\nb")
    assert read_text(path) == "a\r\nb"
