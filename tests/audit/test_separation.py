"""What two files share, on records that are written out; `test_near_duplicates.py` has the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import record, write_jsonl
from messages import assert_says

from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.audit.separation import check_separation
from pact_eval.data.files import DataFile, Role
from pact_eval.data.index import index_of_records

TEXTS = (
    "The clerk of the harbour office noted on Monday that the seal was intact.",
    "A lamp above the north gate burned from dusk until the second bell.",
    "Two barrels of lime were delivered late, so masons waited by the wall.",
    "Every ferry to the island was cancelled because of fog in the strait.",
)


def row(name: str, text: str, **changes: Any) -> dict[str, Any]:
    own = {"source_family": f"of-{name}", "provenance": {"source_id": f"s-{name}"}}
    return record(name, state=text, **own | changes)


def checked(folder: Path, **files: list[Any]) -> CheckResult:
    """Check files by role; "eval2" is another file of the role "eval"."""
    roles: dict[str, Role] = {"eval2": "eval"}
    data = []
    for name, rows in files.items():
        role: Any = roles.get(name, name)
        data.append(DataFile(name, role, write_jsonl(folder / name, rows)))
    return check_separation(index_of_records(data), Collector("separation", 50), threshold=0.75)


def findings_of(result: CheckResult) -> list[tuple[str, str, str]]:
    return [(finding.code, str(finding.place), finding.actual) for finding in result.findings]


def test_files_that_share_nothing(tmp_path: Path) -> None:
    result = checked(tmp_path, train=[row("a", TEXTS[0])], eval=[row("b", TEXTS[1])])
    assert (findings_of(result), result.skipped, result.leaks) == ([], None, ())
    assert result.scope == "2 records in 2 files"


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ({"id": "A "}, "shared-id", "a, as in train:1 (id a)"),
        ({"family": "a"}, "shared-family", "a, as in train:1 (id a)"),
        ({"source_family": "OF-A"}, "shared-source-family", "of-a, as in train:1 (id a)"),
        ({"provenance": {"source_id": "s-a"}}, "shared-source-id", "s-a, as in train:1 (id a)"),
    ],
)
def test_names_that_two_files_share(
    tmp_path: Path, changes: dict[str, Any], code: str, text: str
) -> None:
    evaluation = [row("c", TEXTS[1]), row("b", TEXTS[2]) | changes]
    result = checked(tmp_path, train=[row("a", TEXTS[0])], eval=evaluation)
    ((reported_code, place, actual),) = findings_of(result)
    assert (reported_code, actual) == (code, text)
    assert place.startswith("eval:2 ")
    (leak,) = result.leaks
    assert (leak.file, leak.sources, leak.items) == ("eval", ("train",), (evaluation[1]["id"],))
    assert leak.families == (evaluation[1]["family"],)


def test_a_context_of_two_files_and_one_that_is_near(tmp_path: Path) -> None:
    near = TEXTS[1].replace("lamp", "torch")
    evaluation = [row("c", TEXTS[2]), row("b", TEXTS[0]), row("d", near)]
    result = checked(tmp_path, train=[row("a", TEXTS[0]), row("e", TEXTS[1])], eval=evaluation)
    assert [(code, place) for code, place, _ in findings_of(result)] == [
        ("shared-context", "eval:2 (id b)"), ("near-duplicate", "eval:3 (id d)")
    ]  # fmt: skip
    assert_says(findings_of(result)[0][2], "that of", "train:1 (id a)")
    (leak,) = result.leaks
    assert leak.items == ("b", "d")


def test_a_value_is_reported_once_a_later_file(tmp_path: Path) -> None:
    rows = [[row(f"{name}{n}", TEXTS[n], source_family="s") for n in range(2)] for name in "abc"]
    for part, text in zip(rows, ("One more note: ", "Another: ", "Then: "), strict=True):
        for item in part:
            item["input"]["state"] = f"{text}{item['id']} {own_words(item['id'])}"
    result = checked(tmp_path, train=rows[0], selection=rows[1], eval=rows[2])
    assert [(code, place) for code, place, _ in findings_of(result)] == [
        ("shared-source-family", "selection:1 (id b0)"),
        ("shared-source-family", "eval:1 (id c0)"),
    ]
    for *_, actual in findings_of(result):
        assert actual.split(", ")[0] == "s"
        assert_says(actual, "as in", "train:1 (id a0)")
    assert [(leak.file, leak.sources, leak.items) for leak in result.leaks] == [
        ("selection", ("train",), ("b0", "b1")),
        ("eval", ("train", "selection"), ("c0", "c1")),
    ]


def own_words(name: str) -> str:
    """Return words that no other name has."""
    return " ".join(f"{name}{letter}{name}" for letter in "uvwxyz")


def test_files_of_one_role_are_no_leak(tmp_path: Path) -> None:
    result = checked(tmp_path, eval=[row("a", TEXTS[0])], eval2=[row("a", TEXTS[1])])
    assert set(result.counts) == {"shared-id", "shared-family", "shared-source-family",
                                  "shared-source-id"}  # fmt: skip
    assert result.leaks == ()


def test_no_source_id_at_all_is_a_note(tmp_path: Path) -> None:
    without = [row(name, text, provenance={}) for name, text in zip("ab", TEXTS, strict=False)]
    result = checked(
        tmp_path, train=[row("c", TEXTS[2]), row("d", TEXTS[3], provenance={})], eval=without
    )
    assert findings_of(result) == [("source-id-missing", "eval", "none")]


def test_one_file_is_compared_with_itself(tmp_path: Path) -> None:
    near = TEXTS[1].replace("lamp", "torch")
    result = checked(tmp_path, eval=[row("a", TEXTS[1]), row("b", near)])
    assert result.counts == {"near-duplicate-within": 2}
    assert (result.skipped, result.scope) == ("one file", "2 records in one file")


def test_a_file_without_source_families_cannot_be_compared(tmp_path: Path) -> None:
    labelled = {"source_id": "x", "labelled": {"defaults": ["source_family"]}}
    rows = [row("a", TEXTS[0], provenance=labelled)]
    result = checked(tmp_path, train=rows, eval=[row("b", TEXTS[1])])
    assert result.skipped is not None
    assert result.skipped.startswith("train: ")
    assert_says(result.skipped, "no source")


def test_families_of_a_leak_are_in_the_order_of_the_file(tmp_path: Path) -> None:
    names = [f"{letter}{number}" for number in (2, 0, 1) for letter in "hgfedcba"]
    rows = [row(name, own_words(name), source_family="of-a") for name in names]
    result = checked(tmp_path, train=[row("a", TEXTS[0])], eval=rows)
    (leak,) = result.leaks
    assert leak.families == tuple(names)
    assert leak.items == tuple(names)


def test_a_context_and_its_json_as_text_are_one_context(tmp_path: Path) -> None:
    """A prompt renders both alike."""
    state: Any = [{"by": "Ann", "says": TEXTS[0]}]
    result = checked(
        tmp_path, train=[row("a-base", state)], eval=[row("b-base", json.dumps(state))]
    )
    assert result.counts["shared-context"] == 1
    assert [leak.items for leak in result.leaks] == [("b-base",)]
