"""`--format sarif|junit|github` against the OASIS schema, and as each reader parses it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from builders import write_jsonl
from ci_formats import SCHEMAS, github_annotations, junit_cases, sarif_annotations, validated_sarif
from commands import refuser, runner
from needs import installed, needs
from spoiled_datasets import healthy

from pact_cli.audit.main import main

run_audit = runner(main)
refused_audit = refuser(main)

FORMATS = ("sarif", "junit", "github")
QUICK = ("--only", "families", "--only", "separation")
LEAKING_LINE = 13


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder is a repository; no variable of a real CI system is set."""
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_WORKSPACE", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def leaking(repository: Path) -> Path:
    """A dataset whose evaluation file has a copy of a training pair, in its last two lines."""
    data = healthy(families=6)
    folder = data.write(repository / "data")
    copied = [{**record, "split": "validation"} for record in data.train[:2]]
    write_jsonl(folder / "holdout.jsonl", [*data.holdout, *copied])
    return folder


def test_a_leaking_record_is_annotated_at_its_line(leaking: Path) -> None:
    text = run_audit("data", leaking, *QUICK, "--format", "sarif", code=3).stdout
    annotations = sarif_annotations(text)
    leaks = [shown for shown in annotations if shown.code == "shared-context"]
    assert {(shown.level, shown.file, shown.line) for shown in leaks} >= {
        ("error", "data/holdout.jsonl", LEAKING_LINE)
    }
    record = json.loads((leaking / "holdout.jsonl").read_text().split("\n")[LEAKING_LINE - 1])
    (shown,) = [shown for shown in leaks if shown.line == LEAKING_LINE]
    assert record["id"] in shown.message
    assert "train.jsonl:1" in shown.message


def test_the_formats_have_the_same_annotations_and_the_json_has_their_findings(
    leaking: Path,
) -> None:
    text = {
        name: run_audit("data", leaking, *QUICK, "--format", name, code=3).stdout
        for name in FORMATS
    }
    annotations = sarif_annotations(text["sarif"])
    assert len(annotations) > 3
    assert sorted(map(repr, annotations)) == sorted(map(repr, github_annotations(text["github"])))
    findings = [
        (finding["severity"], finding["code"], f"data/{finding['file']}", finding["line"])
        for check in json.loads(run_audit("data", leaking, *QUICK, "--json", code=3).stdout)[
            "checks"
        ]
        for finding in check["findings"]
    ]
    assert [(shown.level, shown.code, shown.file, shown.line) for shown in annotations] == findings
    cases = junit_cases(text["junit"])
    failure = cases["separation"].find("failure")
    assert failure is not None
    assert failure.text is not None
    assert f"data/holdout.jsonl:{LEAKING_LINE}: error shared-context: " in failure.text
    assert cases["families"].find("failure") is None


@pytest.mark.parametrize("ci_format", FORMATS)
def test_exit_codes_are_those_without_a_format(leaking: Path, ci_format: str) -> None:
    for only, code in (("schema", 0), ("separation", 3), ("hashes", 5)):
        run_audit("data", leaking, "--only", only, "--format", ci_format, code=code)


def test_an_error_is_annotated_too(repository: Path) -> None:
    """A file that cannot be read has the exit code 1, and each problem its line."""
    (repository / "rows.jsonl").write_text(
        '{"question": "Is it?", "options": ["yes", "no"], "answer": "yes"}\n'
        '{"question": "Is it?", "options": ["yes", "no"], "answer": "maybe"}\n'
        '{"question": "Is it?", "options": ["yes", "no"], "answer": "never"}\n'
    )
    text = run_audit("data", "--eval", "rows.jsonl", "--format", "github", code=1).stdout
    places = [(shown.file, shown.line, shown.level) for shown in github_annotations(text)]
    assert places == [("rows.jsonl", 2, "error"), ("rows.jsonl", 3, "error")]
    for ci_format in ("sarif", "junit"):
        assert refused_audit("data", "nowhere", "--format", ci_format, code=1)
    (shown,) = github_annotations(run_audit("data", "nowhere", "--format", "github", code=1).stdout)
    assert (shown.file, shown.line) == ("", None)


@pytest.mark.parametrize("ci_format", FORMATS)
def test_a_sound_dataset_has_no_annotation(repository: Path, ci_format: str) -> None:
    folder = healthy(families=6).write(repository / "data")
    text = run_audit("data", folder, "--only", "schema", "--format", ci_format).stdout
    readers: dict[str, Callable[[str], object]] = {
        "sarif": lambda text: validated_sarif(text)["results"],
        "github": github_annotations,
        "junit": lambda text: [case.tag for case in junit_cases(text).values() if len(case)],
    }
    assert readers[ci_format](text) == []


@needs("xmlschema, of the group dev", present=installed("xmlschema"))
def test_junit_against_the_schema_of_the_plugin_of_jenkins(leaking: Path, repository: Path) -> None:
    """Passed, failed and skipped cases, notes of passed ones, and text that is not XML."""
    schema = import_module("xmlschema").XMLSchema(SCHEMAS / "junit-10.xsd")
    data = healthy(families=6)
    for record in data.holdout[:2]:  # an id that occurs twice
        record["id"] = "x\n]]> <b> \x1b[31m \u202e"
    hostile = data.write(repository / "hostile")
    for folder, only, code in ((leaking, QUICK, 3), (leaking, (), 5), (hostile, (), 3)):
        text = run_audit("data", folder, *only, "--format", "junit", code=code).stdout
        schema.validate(text)
        assert not schema.is_valid(text.replace("classname", "class"))


def test_what_was_not_checked_is_skipped_and_not_passed(repository: Path) -> None:
    folder = healthy(families=6).write(repository / "data")
    (folder / "manifest.json").unlink()
    files = ("--eval", folder / "holdout.jsonl")
    cases = junit_cases(run_audit("data", *files, "--format", "junit").stdout)
    assert cases["lengths"].find("skipped") is not None
    assert cases["schema"].find("skipped") is None


def test_text_of_data_cannot_end_a_command_an_element_or_a_cell(repository: Path) -> None:
    data = healthy(families=6)
    folder = data.write(repository / "a,b:c%25 d")
    hostile = "x\n::error file=y::%0A]]> <b> | \x1b[31m \u202e"
    for record in data.holdout[:2]:
        record["id"] = hostile
    lines = [json.dumps(record) for record in data.holdout]
    (folder / "holdout.jsonl").write_text("\n".join(lines) + "\n")
    arguments = ("data", folder, "--only", "schema", "--format")
    annotations = github_annotations(run_audit(*arguments, "github", code=3).stdout)
    assert {shown.file for shown in annotations} == {"a,b:c%25 d/holdout.jsonl"}
    shown_by_sarif = sarif_annotations(run_audit(*arguments, "sarif", code=3).stdout)
    assert {shown.file for shown in shown_by_sarif} == {"a,b:c%25 d/holdout.jsonl"}
    assert [*map(repr, shown_by_sarif)] == [*map(repr, annotations)]
    assert any("]]>" in shown.message for shown in annotations)
    failure = junit_cases(run_audit(*arguments, "junit", code=3).stdout)["schema"].find("failure")
    assert failure is not None
    assert failure.text is not None
    assert len(failure.text.splitlines()) == len(annotations)


def test_the_step_summary_is_appended(
    leaking: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = repository / "summary.md"
    summary.write_text("before\n\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    run_audit("data", leaking, *QUICK, "--format", "sarif", code=3)
    assert summary.read_text() == "before\n\n"
    run_audit("data", leaking, *QUICK, "--format", "github", code=3)
    text = summary.read_text("utf-8")
    assert text.startswith("before\n\n### ❌ pact-audit data\n")
    assert f"| data/holdout.jsonl:{LEAKING_LINE} | error | shared-context |" in text
    assert re.search(r"^\| families \| ✅ passed \|", text, re.MULTILINE)


def test_a_summary_that_cannot_be_written_changes_no_exit_code(
    leaking: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(repository))
    result = run_audit("data", leaking, *QUICK, "--format", "github", code=3)
    assert str(repository) in result.stderr
    assert github_annotations(result.stdout)


def test_paths_start_at_the_repository(
    leaking: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("data", leaking, *QUICK, "--format", "github")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(repository.parent))
    files = {shown.file for shown in github_annotations(run_audit(*arguments, code=3).stdout)}
    assert files == {f"{repository.name}/data/holdout.jsonl"}
    elsewhere = repository / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("GITHUB_WORKSPACE", str(elsewhere))
    monkeypatch.chdir(elsewhere)
    outside = sarif_annotations(run_audit(*arguments[:-1], "sarif", code=3).stdout)
    assert {shown.file for shown in outside} == {(leaking / "holdout.jsonl").as_uri()}
