"""Adapters and base models of the Hub: what is downloaded, at which commit, and what is refused.

A local server answers the client of the Hub as the Hub does; see `hub_server.py`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import runner
from messages import assert_says
from remote.hub_server import Hub

from pact_cli.audit.main import main as audit_program
from pact_cli.main import main
from pact_eval.custody import TRAINING_RECORD
from pact_eval.errors import AdapterError
from pact_eval.evaluation.arms.table_results import TRAINING_NAME
from pact_eval.models import (
    ADAPTER_CONFIG,
    ADAPTER_FILES,
    ADAPTER_WEIGHTS,
    SCHEMA_CONFIG,
    find_adapter,
    label_of,
)
from pact_eval.runs.training_log import LOG_NAME
from pact_eval.scoring.request import ModelRequest
from pact_eval.templates.files import DECISION_CONFIG, DECISION_TEMPLATE, head_files

audit, evaluate = runner(audit_program), runner(main)

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "pact_fixtures"
MODEL, PACT = FIXTURES / "model", FIXTURES / "adapters" / "pact"
ID = "owner/pact"
NEEDED = [ADAPTER_CONFIG, ADAPTER_WEIGHTS, SCHEMA_CONFIG, TRAINING_NAME, TRAINING_RECORD]
SCORE = ["--base-model", MODEL, "--device", "cpu", "--k", 1, "--limit", 3]
TABLE = "text,label\n" + "".join(f"text {n},{('pos', 'neg')[n % 2]}\n" for n in range(6))


@pytest.fixture
def folder(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the repository, with more files than an adapter needs."""
    monkeypatch.chdir(tmp_path)
    copy = shutil.copytree(PACT, tmp_path / "repository")
    (copy / "README.md").write_text("# Adapter")
    (copy / "run.py").write_text("print('never run')")
    (copy / "checkpoint-30").mkdir()
    (copy / "checkpoint-30" / "optimizer.pt").write_bytes(b"\x80\x04K\x01.")
    return copy


@pytest.fixture
def commit(hub: Hub, folder: Path) -> str:
    return hub.add(f"models/{ID}").add(folder, "main", "v1")


def refused(place: object) -> str:
    with pytest.raises(AdapterError) as caught:
        find_adapter(str(place))
    return str(caught.value)


def test_the_files_of_every_reader_are_downloaded(tmp_path: Path) -> None:
    """Each of these constants names a file that some command reads from an adapter's folder."""
    for name in (DECISION_CONFIG, DECISION_TEMPLATE, LOG_NAME, *NEEDED):
        assert name in ADAPTER_FILES
    for name in ADAPTER_FILES:
        (tmp_path / name).write_text('{"codes": []}')
    assert {*head_files(tmp_path)} <= {*ADAPTER_FILES}


@pytest.mark.parametrize("revision", ["", "@main", "@v1"])
def test_an_adapter_is_a_snapshot_with_what_it_needs(
    revision: str, hub: Hub, folder: Path, commit: str
) -> None:
    adapter = find_adapter(ID + revision)
    assert adapter.folder.name == commit
    assert sorted(path.name for path in adapter.folder.iterdir()) == sorted(NEEDED)
    assert sorted(hub.sent()) == sorted(NEEDED)
    assert adapter.others == ("README.md", "checkpoint-30/optimizer.pt", "run.py")
    for name in NEEDED:
        assert (adapter.folder / name).read_bytes() == (PACT / name).read_bytes()
    assert label_of(adapter.folder) == "pact"


@pytest.mark.slow
def test_score_records_the_commit_and_names_the_run_by_the_repository(
    commit: str, tmp_path: Path
) -> None:
    (tmp_path / "data.csv").write_text(TABLE)
    done = evaluate("score", f"{ID}@v1", *SCORE, "--data", "data.csv")
    run = tmp_path / "runs" / "pact"
    recorded = json.loads((run / "run.json").read_text())
    assert recorded["hub"] == {
        "adapter": {"kind": "model", "repository": ID, "commit": commit},
    }
    assert f"Adapter: {ID}@{commit}" in done.stderr
    assert recorded["custody"]["training"]["sha256"]  # its training record came along
    assert f"{ID}@{commit}" in evaluate("report", run, "--full").stdout
    checks = json.loads(evaluate("verify", run, "--json").stdout)
    assert "differs" not in json.dumps(checks)
    # The same adapter from a folder resumes the run: weights are compared, not places.
    evaluate("score", PACT, *SCORE, "--data", "data.csv", "--out", run)
    assert json.loads((run / "run.json").read_text()) == recorded


def test_a_local_folder_wins(commit: str, hub: Hub, tmp_path: Path) -> None:
    shutil.copytree(PACT, tmp_path / ID)
    assert find_adapter(ID).folder == Path(ID)
    assert not hub.requests
    assert find_adapter(f"hf://{ID}").folder.name == commit


def test_a_name_beside_local_folders_is_a_wrong_path(commit: str, hub: Hub, tmp_path: Path) -> None:
    """A typing error in a path does not tell the Hub the name."""
    (tmp_path / "owner").mkdir()
    (tmp_path / "data.csv").write_text(TABLE)
    score = ["score", ID, "--data", "data.csv"]
    for program, words in ((audit, ["adapter", ID]), (evaluate, score)):
        text = program(*words, code=1).stderr
        assert_says(text, f"{ID}: no such adapter folder", f"hf://{ID}")
    assert not hub.requests
    assert find_adapter(f"{ID}@main").folder.name == commit


def test_the_audit_names_commit_and_files_that_were_not_downloaded(commit: str, hub: Hub) -> None:
    done = audit("adapter", ID, "--json", code=3)
    (value,) = json.loads(done.stdout)["adapters"]
    hub_facts = value["facts"]["hub"]
    assert (hub_facts["repository"], hub_facts["commit"]) == (ID, commit)
    files = {file["name"]: file["sha256"] for file in value["facts"]["files"]}
    assert [name for name, sha256 in files.items() if sha256 is None] == [
        "README.md",
        "checkpoint-30/optimizer.pt",
        "run.py",
    ]
    findings = {
        finding["code"]: finding["file"]
        for check in value["checks"]
        for finding in check["findings"]
        if check["check"] == "files"
    }
    assert findings == {"pickled": "checkpoint-30/optimizer.pt", "code-file": "run.py"}
    assert sorted(hub.sent()) == sorted(NEEDED)
    shown = audit("adapter", f"{ID}@v1", code=3).stdout
    assert f"from the Hub: {ID}@{commit}" in " ".join(shown.split())


# What the repository lacks, and what the Hub refuses.


def test_pickled_weights_are_refused_before_anything_is_downloaded(hub: Hub, folder: Path) -> None:
    (folder / ADAPTER_WEIGHTS).rename(folder / "adapter_model.bin")
    hub.add(f"models/{ID}").add(folder)
    text = refused(ID)
    assert_says(text, f"expected an adapter with {ADAPTER_WEIGHTS}", "adapter_model.bin", "refused")
    assert not hub.sent()
    result = audit("adapter", ID, "--json", code=3)  # the audit says all that is wrong
    codes = [
        finding["code"]
        for check in json.loads(result.stdout)["adapters"][0]["checks"]
        for finding in check["findings"]
    ]
    assert codes.count("pickled") == 2
    assert "file-missing" in codes


def test_a_full_model_is_no_adapter(hub: Hub) -> None:
    hub.add("models/owner/base").add(MODEL)
    assert_says(refused("owner/base"), "found none", "full model", "--base-model owner/base")


def test_adapters_in_folders_are_named(hub: Hub, folder: Path, tmp_path: Path) -> None:
    for seed in (17, 23):
        shutil.copytree(PACT, tmp_path / "many" / f"seed-{seed}")
    hub.add(f"models/{ID}").add(tmp_path / "many")
    assert_says(refused(ID), "adapters in folders (seed-17, seed-23)", f"hf download {ID}")


def test_no_such_repository_is_no_folder_either(hub: Hub, tmp_path: Path) -> None:
    text = refused("someone/their-adapter")
    assert_says(text, "no such repository", "HF_TOKEN", "no local folder someone/their-adapter")
    assert "folder" not in refused("hf://someone/their-adapter")


def test_a_token_is_never_printed(
    commit: str, hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hub.repositories[f"models/{ID}"].token = "hf_right"  # noqa: S105
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    result = audit("adapter", ID, code=1)
    assert_says(result.stderr, "Error:", ID, "refuses the token", "HF_TOKEN")
    assert "hf_wrong" not in result.output
    assert result.stderr.count("\n") == 1
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    value = audit("adapter", ID, "--json", code=3).output
    assert "hf_right" not in value


@pytest.mark.parametrize("command", ["audit", pytest.param("score", marks=pytest.mark.slow)])
def test_offline_and_without_network(
    command: str, hub: Hub, commit: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "data.csv").write_text(TABLE)

    def output(code: int) -> str:
        if command == "audit":
            return audit("adapter", ID, code=code).output
        return evaluate("score", ID, *SCORE, "--data", "data.csv", code=code).stderr

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert_says(output(1), "HF_HUB_OFFLINE is set", f"hf download {ID}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert_says(output(1), "cannot be reached", "HF_ENDPOINT")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
    find_adapter(ID)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    hub.requests.clear()
    shown = output(0)
    assert commit in shown
    assert not hub.requests
    if command == "audit":  # the other files of the repository are not known
        assert_says(shown, "files/not-looked-into", "HF_HUB_OFFLINE is set")


def test_a_hostile_listing_does_not_write_elsewhere(hub: Hub, commit: str, tmp_path: Path) -> None:
    hub.repositories[f"models/{ID}"].listed = ("../../../../adapter_config.json", "/tmp/x.py")  # noqa: S108
    adapter = find_adapter(ID)
    assert sorted(path.name for path in adapter.folder.iterdir()) == sorted(NEEDED)
    home = tmp_path / "hub-cache"
    assert not list(tmp_path.glob("adapter_config.json"))
    assert {path.parent.name for path in home.rglob("adapter_config.json")} == {commit}
    value = json.loads(audit("adapter", ID, "--json", code=3).stdout)
    assert "../../../../adapter_config.json" in json.dumps(value)


# Base models.


@pytest.fixture
def base_commit(hub: Hub, tmp_path: Path) -> str:
    return hub.add("models/owner/base").add(shutil.copytree(MODEL, tmp_path / "base"), "main", "v1")


def test_a_base_model_by_id_has_a_commit(hub: Hub, base_commit: str, folder: Path) -> None:
    """As `--base-model`, with or without a revision, and as the adapter names it."""
    from pact_eval.scoring.model import identify, resolve_base  # loads PEFT: seconds

    for name, revision in (("owner/base", None), ("owner/base", "v1"), ("owner/base@v1", None)):
        base = resolve_base(name, revision)
        assert (base.name, base.revision) == ("owner/base", base_commit)
    config = json.loads((folder / ADAPTER_CONFIG).read_text())
    named: dict[str, Any] = {"base_model_name_or_path": "owner/base", "revision": "v1"}
    (folder / ADAPTER_CONFIG).write_text(json.dumps(config | named))
    schema = json.loads((folder / SCHEMA_CONFIG).read_text())
    (folder / SCHEMA_CONFIG).write_text(json.dumps(schema | {"model": None}))
    (folder / TRAINING_RECORD).unlink()
    schema = json.loads((folder / SCHEMA_CONFIG).read_text())
    schema.pop("training_data_sha256", None)
    (folder / SCHEMA_CONFIG).write_text(json.dumps(schema))
    hub.add(f"models/{ID}").add(folder)
    model = identify(ModelRequest(find_adapter(ID).folder, device="cpu"))
    assert (model.base.name, model.base.revision) == ("owner/base", base_commit)


def test_a_base_model_that_the_hub_lacks(hub: Hub) -> None:
    from pact_eval.scoring.model import resolve_base

    with pytest.raises(AdapterError) as caught:
        resolve_base("owner/none", None)
    assert_says(caught.value, "owner/none", "no such repository", "HF_TOKEN")
    with pytest.raises(AdapterError) as caught:
        resolve_base("owner/none@v3", None)
    assert_says(caught.value, "owner/none@v3", "no such repository")
