"""A bucket for each test, on one server for all of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from remote.s3_server import S3, served

from pact_eval.runs.remote import copies


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    yield from served(tmp_path_factory.mktemp("s3"))


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files of a test, which has copied nothing yet."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(copies, "_root", [])
    monkeypatch.setattr(copies, "_runs", {})
    return folder


@pytest.fixture
def bucket(s3: S3, tmp_path: Path, copied: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a bucket of this test; the environment has the keys for it."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    folder = s3.folder / tmp_path.name.replace("_", "-").lower()[:60].strip("-")
    folder.mkdir(parents=True)
    return folder
