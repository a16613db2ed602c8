"""A bucket for each test, on one server for all of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from remote.hub_server import Hub
from remote.hub_server import served as served_hub
from remote.s3_server import S3, served

from pact_eval.runs import places


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    yield from served(tmp_path_factory.mktemp("s3"))


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files of a test, which has copied nothing yet."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(places, "_root", [])
    monkeypatch.setattr(places, "_runs", {})
    return folder


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A server in place of the Hub. The client reads its settings when it is imported."""
    constants = pytest.importorskip("huggingface_hub.constants")
    with served_hub() as server:
        template = f"{server.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        yield server


@pytest.fixture
def bucket(s3: S3, tmp_path: Path, copied: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a bucket of this test; the environment has the keys for it."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    folder = s3.folder / tmp_path.name.replace("_", "-").lower()[:60].strip("-")
    folder.mkdir(parents=True)
    return folder
