"""`pact-audit` as a user meets it: output, exit codes, messages without tracebacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from adapters import copied, schema
from builders import record, write_jsonl
from commands import refuser, runner
from messages import assert_says
from spoiled_datasets import healthy

from pact_cli.audit.main import main
from pact_eval.audit.findings import Check, CheckResult

run = runner(main)
refused = refuser(main)

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "pact_fixtures"
UNHASHED = ("--only", "schema", "--only", "families", "--only", "certificates")
QUICK = ("--only", "hashes", *UNHASHED)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return healthy(families=6).write(tmp_path / "data")


@pytest.mark.slow
def test_the_shipped_data_pass_every_check() -> None:
    text = run("data", FIXTURES / "data", "--tokenizer", FIXTURES / "model", "--full").stdout
    assert text.count(" passed ") >= 8
    assert "failed" not in text
    assert_says(text.splitlines()[0], "sound", "as far as checked")
    assert "444 of 444 contexts ablated" in text


def test_one_screen_says_what_is_wrong_and_where(folder: Path) -> None:
    lines = (folder / "holdout.jsonl").read_text().split("\n")
    value = json.loads(lines[1])
    value["input"]["questions"]["decision"]["instructions"] += " Really?"
    lines[1] = json.dumps(value, ensure_ascii=False)
    (folder / "holdout.jsonl").write_text("\n".join(lines))
    short = run("data", folder, *QUICK, code=5).stdout
    assert short.startswith("TAMPERED")
    assert_says(short, "question or criteria differ: once, holdout.jsonl:2", "All numbers: --full")
    text = run("data", folder, *QUICK, "--full", code=5).stdout
    assert text.startswith(short.removesuffix("All numbers: --full.\n"))
    assert "error hashes/hash-mismatch  holdout.jsonl\n" in text
    assert_says(
        text, "error families/question-differs", "holdout.jsonl:2 (id commerce-02-001-count"
    )
    assert "[[Really?]]" in text
    run("manifest", folder)
    text = run("data", folder, *QUICK, code=3).stdout
    assert_says(text.splitlines()[0], "NOT TO BE TRUSTED", "1 error", "pairs")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["data"], 2, "expected DIR, FILE, or --train and --eval"),
        (["data", "nowhere"], 1, "nowhere: no such file or folder"),
        (["data", "x", "--only", "spelling"], 2, "'spelling' is not one of"),
        (["data", "x", "--near-duplicate", "0"], 2, "expected a number above 0, at most 1"),
        (["split", "nowhere.jsonl", "--out", "x"], 1, "no such file"),
        (["diff", "a.jsonl", "b.jsonl"], 1, "a.jsonl: no such file"),
        (["ablate", "a.jsonl", "--out", "x"], 1, "a.jsonl: no such file"),
        (["adapter", "nowhere"], 1, "nowhere: no such adapter folder"),
    ],
)
def test_wrong_use_is_told(
    arguments: list[str], code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in refused(*arguments, code=code)
    assert not list(tmp_path.iterdir())


def test_a_check_that_was_asked_for_and_skipped_is_no_success(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skipped = CheckResult("balance", "", skipped="for this test")
    monkeypatch.setattr(Check, "result", lambda *_: skipped)
    result = run("data", folder, "--only", "balance", code=1)
    assert_says(result.stderr, "skipped balance", "for this test")


def test_an_ablation_overwrites_nothing(folder: Path) -> None:
    source = folder / "train.jsonl"
    before = source.read_bytes()
    assert "expected a new file" in refused("ablate", source, "--out", source)
    assert source.read_bytes() == before


def test_another_base_than_the_adapter_names_is_tampering(tmp_path: Path) -> None:
    folder = copied(tmp_path / "adapter")
    schema(base_weights_sha256="0" * 64)(folder)
    text = run("adapter", folder, code=5).stdout
    verdict = "TAMPERED: the base's weights are not those that the adapter names (2 errors"
    assert verdict in text
    assert json.loads(run("adapter", folder, "--json", code=5).stdout)["adapters"][0]["tampered"]


@pytest.mark.parametrize("name", ["[/x]dir", "[red]dir"])
def test_names_are_no_markup(name: str, tmp_path: Path) -> None:
    folder = healthy(families=6).write(tmp_path / name)
    text = run("manifest", folder).stdout.replace("\n", "")
    assert f"{name}/manifest.json" in text
    assert name in run("adapter", copied(tmp_path / f"{name}-adapter")).stdout.replace("\n", "")


FORGED = "x\n\nThe data passed: no finding.\n\u202e\u2066\u2028\u2029\x85\u200b"


@pytest.mark.parametrize("arguments", [["data"], ["diff"]])
def test_no_id_forges_a_line(arguments: list[str], folder: Path) -> None:
    rows = [record(f"{FORGED}{n}", split="train") for n in range(3)]
    path = write_jsonl(folder / "holdout.jsonl", rows)
    if arguments == ["diff"]:
        text = run("diff", folder / "train.jsonl", path).stdout
    else:
        text = run("data", folder, "--only", "schema", "--full", code=3).stdout
    assert not any(line.startswith("The data passed") for line in text.splitlines())
    assert not set(FORGED) - {"\n"} & {sign for sign in text if not sign.isprintable()}
    assert FORGED.encode("unicode_escape").decode() in text.replace("\n", "")


def test_no_id_forges_a_line_of_a_message(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "train.jsonl", [record(FORGED), record(FORGED)])
    message = refused("manifest", tmp_path)
    problem, remedy = message.splitlines()
    assert str(path) in problem
    assert f"pact-audit data {path}" in remedy


_COMMANDS = """
import json, sys
from pact_cli.audit.main import main
for arguments in json.loads(sys.argv[1]):
    main(arguments, standalone_mode=False)
"""


def in_one_process(
    *commands: list[object], before: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    """Run commands in a fresh interpreter, which stops at the first that fails."""
    words = json.dumps([[str(argument) for argument in arguments] for arguments in commands])
    done = subprocess.run(
        [sys.executable, "-c", before + _COMMANDS, words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | env,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.slow
def test_file_names_that_are_no_utf8(tmp_path: Path) -> None:
    folder = healthy(families=6).write(tmp_path / "data\udcff")
    adapter = copied(tmp_path / "adapter\udcff")
    done = in_one_process(
        ["manifest", folder],
        ["data", folder, "--only", "schema", "--json"],
        ["adapter", adapter],
        ["ablate", folder / "train.jsonl", "--out", tmp_path / "ablated\udcff.jsonl"],
        ["adapter", adapter, "--json"],
        PYTHONIOENCODING="utf-8:strict",
    )
    for name in ("data\\udcff", "adapter\\udcff", "ablated\\udcff.jsonl"):
        assert name in done.stdout
    value = json.loads(done.stdout[done.stdout.rindex("\n{") :])
    assert value["adapters"][0]["folder"] == str(adapter)


def test_a_manifest_is_written_kept_and_checked(folder: Path) -> None:
    path = folder / "manifest.json"
    value = json.loads(path.read_bytes())
    path.write_text(json.dumps(value | {"licence": "CC0"}))
    assert "unchanged:" in run("manifest", folder).stdout
    (folder / "extra-test.jsonl").write_text(json.dumps(record(), ensure_ascii=False) + "\n")
    assert "wrote" in run("manifest", folder).stdout
    written = json.loads(path.read_bytes())
    assert written["licence"] == "CC0"
    assert written["roles"]["extra-test.jsonl"] == "eval"
    assert "eval_rows" not in written  # two evaluation files
    run("manifest", folder, "--check")
    (folder / "train.jsonl").write_bytes((folder / "train.jsonl").read_bytes() + b"\n")
    assert "hash-mismatch" in run("manifest", folder, "--check", code=5).stdout


def test_no_manifest_is_written_for_lines_that_are_no_records(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "train.jsonl", ["{}"])
    assert "train.jsonl:1: " in refused("manifest", tmp_path)
    assert not (tmp_path / "manifest.json").exists()


def test_a_split_is_shown_and_passes_its_own_audit(tmp_path: Path) -> None:
    source = FIXTURES / "data" / "train.jsonl"
    # Cells wrap beside a long path.
    shown = set(run("split", source, "--out", tmp_path / "parts").stdout.split())
    assert {"select", "checkpoints", "fit", "temperatures"} <= shown
    assert {"wrote", str(tmp_path / "parts" / "manifest.json")} <= shown
    run("data", tmp_path / "parts", *QUICK, "--only", "separation")
    holdout = FIXTURES / "data" / "holdout.jsonl"
    words = ("--eval", holdout, *QUICK, "--only", "separation", "--full")
    text = run("data", tmp_path / "parts", *words).stdout
    assert "444 lines in 4 files" in text
    assert_says(text, "with doubts", "1 warning")  # the manifest of the parts has no holdout
    parts = {path: path.read_bytes() for path in (tmp_path / "parts").iterdir()}
    run("split", source, "--out", tmp_path / "parts")  # as after a kill: they are complete
    other = refused("split", source, "--out", tmp_path / "parts", "--seed", "18")
    assert_says(other, "train.jsonl", "manifest.json", "nothing was written")
    assert {path: path.read_bytes() for path in (tmp_path / "parts").iterdir()} == parts
    value = json.loads(run("split", source, "--out", tmp_path / "more", "--json").stdout)
    assert [part["role"] for part in value["parts"]] == ["train", "selection", "calibration"]


@pytest.mark.slow
def test_no_command_but_the_tokenizers_needs_the_model_extra(folder: Path) -> None:
    hidden = (
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('torch', 'transformers', 'peft', 'tokenizers'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hidden())\n"
    )
    in_one_process(
        ["data", folder, "--only", "schema", "--only", "separation"],
        ["adapter", FIXTURES / "adapters" / "nimble_recipe"],
        before=hidden,
    )


def test_a_file_of_a_dataset_stands_for_its_folder(folder: Path) -> None:
    """As from Python; a manifest that is given is compared instead of the one next to it."""
    of_folder = run("data", folder, *QUICK).stdout
    assert run("data", folder / "holdout.jsonl", *QUICK).stdout == of_folder
    manifest = folder / "manifest.json"
    words = ("--manifest", manifest, *QUICK, "--json")
    alone = run("data", folder / "holdout.jsonl", *words, code=3)  # the training file is missing
    assert [file["name"] for file in json.loads(alone.stdout)["files"]] == [
        str(folder / "holdout.jsonl")
    ]
