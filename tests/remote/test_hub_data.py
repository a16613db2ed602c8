"""Labelled data of the Hub, and of its cache: which file is read, and at which commit.

A local server answers the client of the Hub as the Hub does; see `hub_server.py`.
"""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import runner
from full_disks import files_of_at_most
from messages import assert_says
from remote.hub_server import Hub, Repository, served

from pact_cli.audit.main import main as audit_program
from pact_cli.main import main
from pact_eval.data.opening import local_data, only_file_of
from pact_eval.errors import InputError, MissingExtraError, SeveralFilesError
from pact_eval.hub import hub_location, located, model_name, snapshot_of, stays_inside

audit, evaluate = runner(audit_program), runner(main)

ROOT = Path(__file__).resolve().parents[2]
FULL = ROOT / "fixtures" / "pact_fixtures" / "data"
URL = "hf://datasets/owner/name"
TOKEN = "hf_of_the_test"  # noqa: S105
TABLE = "text,label\n" + "".join(f"text {n},{('pos', 'neg')[n % 2]}\n" for n in range(12))


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Write text files into a folder; return it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def repository(hub: Hub, tmp_path: Path) -> Repository:
    """A repository with one data file on `main`, and an older one of the tag `v1`."""
    made = hub.add("datasets/owner/name")
    made.add(write(tmp_path / "old", {"data/test.csv": TABLE.replace("text 1,", "old 1,")}), "v1")
    made.add(write(tmp_path / "new", {"data/test.csv": TABLE, "README.md": "# Data"}))
    return made


def refused(place: str, error: type[Exception] = InputError) -> str:
    with pytest.raises(error) as caught:
        local_data(place)
    text = str(caught.value)
    assert TOKEN not in text
    return text


@pytest.mark.parametrize("place", ["", "/data", "/data/test.csv", "@main", "@v1/data/test.csv"])
def test_a_branch_or_tag_becomes_a_commit(
    place: str, hub: Hub, repository: Repository, tmp_path: Path
) -> None:
    file = local_data(URL + place)
    revision = "v1" if "v1" in place else "main"
    snapshot = snapshot_of(file)
    assert snapshot is not None
    assert (snapshot.kind, snapshot.repository) == ("dataset", "owner/name")
    assert (snapshot.commit, snapshot.path) == (repository.revisions[revision], "data/test.csv")
    expected = tmp_path / ("old" if revision == "v1" else "new") / "data" / "test.csv"
    assert file.read_bytes() == expected.read_bytes()
    assert hub.sent() == ["data/test.csv"]  # and no README


def test_the_revision_of_converted_files_has_slashes(hub: Hub, tmp_path: Path) -> None:
    folder = write(tmp_path / "converted", {"default/test/0000.csv": TABLE})
    commit = hub.add("datasets/owner/name").add(folder, "refs/convert/parquet")
    for place in ("@refs/convert/parquet/default/test", "@refs%2Fconvert%2Fparquet"):
        assert hub_location(local_data(URL + place)) == f"{URL}@{commit}/default/test/0000.csv"


def test_several_data_files_are_listed_and_the_usage_is_wrong(
    hub: Hub, tmp_path: Path, repository: Repository
) -> None:
    write(tmp_path / "new", {"data/train.csv": TABLE})
    text = refused(URL, SeveralFilesError)
    commit = repository.revisions["main"]
    assert_says(text, "expected one data file, found 2", f"{URL}@{commit}/data/test.csv")
    assert f"{URL}@{commit}/data/train.csv" in text
    result = audit("convert", URL, tmp_path / "out.jsonl", code=2)
    assert_says(result.stderr, "found 2", "data/train.csv")
    assert "score" not in hub.sent()
    line = text.splitlines()[1].strip()  # what the message lists can be given
    assert local_data(line).name == "test.csv"


@pytest.mark.parametrize("name", ["none.csv", "data/none", "dat"])
def test_a_place_that_the_commit_lacks(name: str, repository: Repository) -> None:
    commit = repository.revisions["main"]
    assert_says(refused(f"{URL}/{name}"), "no such file or folder", commit, "data/test.csv")


def test_a_repository_without_data(hub: Hub, tmp_path: Path) -> None:
    hub.add("datasets/owner/name").add(write(tmp_path / "empty", {"README.md": "# Nothing"}))
    assert_says(refused(URL), "expected a data file", ".csv", "found none")


def test_a_manifest_decides_and_its_files_are_compared(hub: Hub, tmp_path: Path) -> None:
    """The released miniature: the training file comes too, because families are compared."""
    commit = hub.add("datasets/owner/full").add(FULL)
    done = audit("data", "hf://datasets/owner/full", "--json", "--only", "hashes")
    value = json.loads(done.stdout)
    assert [(file["name"], file["role"]) for file in value["files"]] == [
        ("train.jsonl", "train"),
        ("holdout.jsonl", "eval"),
    ]
    for file in value["files"]:
        assert file["hub"] == {
            "kind": "dataset",
            "repository": "owner/full",
            "commit": commit,
            "path": file["name"],
        }
    assert (value["passed"], value["counts"]["error"]) == (True, 0)
    assert commit in done.stderr
    assert sorted(hub.sent()) == ["holdout.jsonl", "manifest.json", "train.jsonl"]
    # The same of the file alone: the manifest around it is looked for.
    shutil.rmtree(tmp_path / "hub-cache")
    hub.requests.clear()
    local_data("hf://datasets/owner/full/holdout.jsonl")
    assert sorted(hub.sent()) == ["holdout.jsonl", "manifest.json", "train.jsonl"]


def test_a_manifest_that_names_other_bytes_is_tampering(hub: Hub, tmp_path: Path) -> None:
    folder = shutil.copytree(FULL, tmp_path / "changed")
    with (folder / "holdout.jsonl").open("a") as file:
        file.write("\n")
    hub.add("datasets/owner/full").add(folder)
    model = ROOT / "fixtures" / "pact_fixtures" / "model"
    words = ["--base-model", model, "--no-adapter", "--out", tmp_path / "run"]
    result = evaluate("score", "--data", "hf://datasets/owner/full", *words, code=5)
    assert_says(result.stderr, "holdout.jsonl", "expected the SHA-256")


@pytest.mark.posix
def test_a_snapshot_here_is_recognised_without_network(
    hub: Hub, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = local_data(URL)
    assert file.is_symlink()  # to the blob, which has another name
    hub.shutdown()
    for name in ("getaddrinfo", "create_connection"):
        monkeypatch.setattr(socket, name, _unreachable)
    commit, out = repository.revisions["main"], tmp_path / "full" / "test.jsonl"
    for place in (file, file.parents[1]):
        assert only_file_of(place) == file
        value = json.loads(audit("convert", place, out, "--json").stdout)
        assert value["labelled"]["hub"] == {
            "kind": "dataset",
            "repository": "owner/name",
            "commit": commit,
            "path": "data/test.csv",
        }
        manifest = json.loads((out.parent / "manifest.json").read_text())
        assert manifest["converted_from"]["hub"]["commit"] == commit
        shutil.rmtree(out.parent)


def _unreachable(*_arguments: object, **_options: object) -> None:
    raise OSError


@pytest.mark.posix
def test_a_snapshot_keeps_the_names_of_its_files(tmp_path: Path) -> None:
    """The link to a blob stays; a link out of the repository, or of another folder, does not."""
    home = tmp_path / "datasets--owner--name"
    folder = home / "snapshots" / ("a" * 40)
    for path in (home / "blobs", folder, tmp_path / "elsewhere"):
        path.mkdir(parents=True)
    (home / "blobs" / "b1").write_text("")
    (tmp_path / "elsewhere" / "secret").write_text("")
    (folder / "test.csv").symlink_to("../../blobs/b1")
    (folder / "out.csv").symlink_to(tmp_path / "elsewhere" / "secret")
    assert located(folder / "test.csv") == (folder / "test.csv").resolve().parents[1] / (
        f"snapshots/{'a' * 40}/test.csv"
    )
    assert located(folder / "out.csv") == tmp_path.resolve() / "elsewhere" / "secret"
    assert stays_inside(folder, folder / "test.csv")
    assert not stays_inside(folder, folder / "out.csv")
    assert not stays_inside(folder, folder / ".." / "other")
    (tmp_path / "shortcut").symlink_to(folder)
    snapshot = snapshot_of(tmp_path / "shortcut" / "test.csv")
    assert snapshot is not None
    assert (snapshot.commit, snapshot.path) == ("a" * 40, "test.csv")


@pytest.mark.slow
def test_score_and_import_record_the_commit(
    hub: Hub, repository: Repository, tmp_path: Path
) -> None:
    model = ROOT / "fixtures" / "pact_fixtures" / "model"
    words = ["--base-model", model, "--no-adapter", "--device", "cpu", "--k", 1, "--limit", 3]
    done = evaluate("score", "--data", f"{URL}@v1", *words, "--out", tmp_path / "run")
    commit = repository.revisions["v1"]
    recorded = json.loads((tmp_path / "run" / "run.json").read_text())
    place = {"kind": "dataset", "repository": "owner/name", "commit": commit}
    assert recorded["hub"] == {"data": {**place, "path": "data/test.csv"}}
    assert f"Data: {URL}@{commit}/data/test.csv" in done.stderr
    full = evaluate("report", tmp_path / "run", "--full").stdout
    assert f"{URL}@{commit}/data/test.csv" in " ".join(full.split())
    verified = evaluate("verify", tmp_path / "run", "--json").stdout
    assert '"differs"' not in verified
    # Rows of one's own, joined with the same data by their ids.
    ids = pl.read_parquet(tmp_path / "run" / "predictions.parquet")["id"].to_list()
    rows = [json.dumps({"id": name, "answer": "pos"}) for name in ids]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    imported = [tmp_path / "rows.jsonl", "--out", tmp_path / "theirs", "--data", f"{URL}@v1"]
    evaluate("import", *imported)
    settings = json.loads((tmp_path / "theirs" / "run.json").read_text())["settings"]
    assert settings["references"]["hub"] == {**place, "path": "data/test.csv"}


def test_split_and_audit_read_places_on_the_hub(repository: Repository, tmp_path: Path) -> None:
    audit("split", URL, "--out", tmp_path / "parts")
    manifest = json.loads((tmp_path / "parts" / "manifest.json").read_text())
    assert manifest["split_from"]["hub"]["commit"] == repository.revisions["main"]
    for words in ([URL], ["--eval", URL], ["--eval", local_data(URL)]):
        done = audit("data", *words, "--json", "--only", "schema")
        (file,) = json.loads(done.stdout)["files"]
        assert (file["name"], file["rows"]) == ("owner/name/data/test.csv", 12)
        assert file["hub"]["commit"] == repository.revisions["main"]
        assert repository.revisions["main"] in done.stderr


def test_problems_of_a_file_name_it_as_the_hub_does(hub: Hub, tmp_path: Path) -> None:
    table = TABLE.replace("text 3,neg", "text 3,neg,more")
    hub.add("datasets/owner/name").add(write(tmp_path / "bad", {"test.csv": table}))
    text = audit("convert", URL, tmp_path / "out.jsonl", code=1).stderr
    assert_says(text, "owner/name/test.csv:5", "expected 2 cells, got 3")


# What the Hub refuses: one message each, with what to do.


def test_no_such_repository(hub: Hub) -> None:
    assert_says(refused(URL), URL, "no such repository", "HF_TOKEN", "hf auth login")


def test_no_such_revision(repository: Repository) -> None:
    assert_says(refused(f"{URL}@v9"), f"{URL}@v9", "no branch, tag or commit v9", "@REVISION")


@pytest.mark.parametrize(
    ("token", "parts"),
    [
        (None, ("no such repository", "private", "HF_TOKEN")),
        ("hf_another", ("refuses the token", "401", "HF_TOKEN")),
    ],
)
def test_a_private_repository(
    token: str | None,
    parts: tuple[str, ...],
    repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repository.token = TOKEN
    if token is not None:
        monkeypatch.setenv("HF_TOKEN", token)
    text = refused(URL)
    assert_says(text, *parts)
    assert "hf_another" not in text
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert local_data(URL).is_file()


def test_a_token_is_not_sent_to_the_host_that_has_the_bytes(
    hub: Hub, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Hub redirects large files to another host."""
    repository.token = TOKEN
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with served() as elsewhere:
        elsewhere.repositories["datasets/owner/name"] = replace(repository, token=None)
        hub.elsewhere = elsewhere.url.replace("127.0.0.1", "localhost")
        assert local_data(URL).read_text() == TABLE
    assert set(hub.tokens) >= {f"Bearer {TOKEN}"}
    assert set(elsewhere.tokens) == {None}


def test_a_gated_repository(repository: Repository) -> None:
    repository.gated = True
    assert_says(refused(URL), "access must be granted", "ask for it", "HF_TOKEN")


@pytest.mark.parametrize(
    ("status", "parts"),
    [(500, ("HTTP 500", "later")), (429, ("429", "later")), (403, ("403", "HF_TOKEN"))],
)
def test_a_status_of_the_hub(
    status: int,
    parts: tuple[str, ...],
    hub: Hub,
    repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)  # the client tries again
    hub.status = status
    assert_says(refused(URL), *parts)


def test_no_network(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert_says(refused(URL), "cannot be reached", "HF_ENDPOINT", "HF_HUB_OFFLINE=1")


def test_offline_reads_the_cache_and_nothing_else(
    hub: Hub, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    text = refused(URL)
    assert_says(text, "HF_HUB_OFFLINE", "hf download owner/name --repo-type dataset")
    assert not hub.requests
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    file = local_data(URL)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    hub.requests.clear()
    assert local_data(URL) == file
    assert local_data(f"{URL}@{repository.revisions['main']}/data/test.csv") == file
    assert not hub.requests
    assert_says(refused(f"{URL}@v1"), "HF_HUB_OFFLINE", "--revision v1")


def test_a_download_that_is_cut_off_can_be_repeated(
    hub: Hub, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    hub.cut = 10
    assert_says(refused(URL), "cut off", "repeat the command")
    hub.cut = None
    assert local_data(URL).read_text() == TABLE


@pytest.mark.posix
def test_a_full_disk_is_not_a_fault_of_the_hub(
    hub: Hub, repository: Repository, tmp_path: Path
) -> None:
    (tmp_path / "new" / "data" / "test.csv").write_text(TABLE * 5_000)
    with files_of_at_most(100_000):
        text = refused(URL)
    assert_says(text, str(tmp_path / "hub-cache"), "cannot be written", "free some space")


@pytest.mark.posix
def test_a_cache_that_cannot_be_written(
    hub: Hub, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "file" / "cache"))
    assert_says(refused(URL), str(tmp_path / "file"), "cannot be written", "Not a directory")


def test_an_old_copy_is_not_taken_if_the_hub_fails(
    hub: Hub, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client itself falls back on what it has, silently."""
    local_data(URL)
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    hub.status = 500
    assert_says(refused(URL), "HTTP 500")
    hub.status = None
    del hub.repositories["datasets/owner/name"]
    assert_says(refused(URL), "no such repository")


@pytest.mark.parametrize("name", ["../x.csv", "/tmp/x.csv", "a/../../x.csv", "a\\..\\x.csv"])  # noqa: S108
def test_a_name_in_a_listing_cannot_escape(
    name: str, hub: Hub, tmp_path: Path, repository: Repository
) -> None:
    (tmp_path / "new" / "data" / "test.csv").unlink()
    repository.listed = (name,)
    before = sorted(tmp_path.rglob("x.csv"))
    assert_says(refused(URL), "cannot be the name of a local file")
    assert sorted(tmp_path.rglob("x.csv")) == before
    assert not hub.sent()


def test_a_hostile_name_does_not_hurt_a_file_beside_it(repository: Repository) -> None:
    repository.listed = ("../../../escaped.txt",)
    assert local_data(f"{URL}/data/test.csv").read_text() == TABLE


def test_without_the_extra_the_line_for_pip_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    text = refused(URL, MissingExtraError)
    assert_says(text, URL, "huggingface_hub", "pip install", "'.[remote]'")


@pytest.mark.parametrize(
    "place",
    [
        "hf://datasets/owner",
        "hf://owner/name",
        "hf://datasets/owner/name@",
        "hf://datasets/owner/name@../x",
        "hf://datasets/owner/name/../x",
        "hf://datasets/owner/na me",
        "hf://datasets/../name/x",
    ],
)
def test_urls_that_are_no_place_in_a_dataset(place: str) -> None:
    assert_says(refused(place), "hf://", "expected hf://datasets/OWNER/NAME")


def test_a_url_with_credentials_is_not_repeated() -> None:
    text = refused(f"hf://user:{TOKEN}@datasets/owner/name")
    assert_says(text, "may not hold a token", "HF_TOKEN")


@pytest.mark.parametrize(
    "place",
    [
        f"hf://{TOKEN}@datasets/owner/name",
        f"hf://{TOKEN}%40datasets/owner/name",
        f"hf://{TOKEN}@owner/name",
        f"hf://owner/name?token={TOKEN}",
        f"hf://datasets/owner/name/a.csv?token={TOKEN}",
    ],
)
def test_tokens_in_names_are_hidden(place: str) -> None:
    assert_says(refused(place), "hf://...: ", "may not hold a token")
    if "datasets/" not in place:
        with pytest.raises(InputError) as caught:
            model_name(place)
        assert TOKEN not in str(caught.value)


def test_urls_of_other_stores_are_no_labelled_data(tmp_path: Path) -> None:
    for words in (["--data", "s3://bucket/x.csv"], ["--data", "https://host/x.csv"]):
        result = evaluate("score", "x", *words, code=2)
        assert_says(result.stderr, "expected a local path or hf://datasets/OWNER/NAME")
    assert_says(refused("s3://bucket/x.csv"), "expected a local path or hf://datasets")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("owner/name", ("owner/name", None)),
        ("owner/name@v1", ("owner/name", "v1")),
        ("owner/name@refs/pr/1", ("owner/name", "refs/pr/1")),
        ("hf://owner/name@main", ("owner/name", "main")),
        ("owner/name/more", None),
        ("./owner/name", None),
        ("../name", None),
        ("owner/name@", None),
        ("name", None),
    ],
)
def test_names_of_adapters(text: str, expected: Any) -> None:
    name = model_name(text)
    assert (None if name is None else (name.repository, name.revision)) == expected
    if name is not None:
        assert model_name(Path(text)) == name
