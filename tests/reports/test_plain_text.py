"""Text from data reaches the reader as it is, and nothing of it is obeyed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pact_eval.audit.adapter.audit import audit_adapter
from pact_eval.audit.findings import CheckResult, Finding
from pact_eval.calibration.effect import CalibrationEffect
from pact_eval.errors import Place
from pact_eval.plain_text import one_line, visible
from pact_reports.table import Line
from pact_reports.views.audit import adapter_parts, findings
from pact_reports.views.calibration import effect_parts
from pact_reports.writers.terminal import to_text

UNPRINTABLE = (
    "\t\r\x00\x1b\x7f\x85\x9b\xad\u200b\u200d\u202e\u2028\u2029\u2066\ufeff\udcff\U000e0041"
)


@pytest.mark.parametrize("sign", [*UNPRINTABLE, "\n"])
def test_one_line_escapes_what_is_not_printable(sign: str) -> None:
    assert one_line(f"a{sign}b") == f"a{sign.encode('unicode_escape').decode()}b"


def test_visible_keeps_lines_and_tabs_alone() -> None:
    assert visible("a\n\tb") == "a\n\tb"
    assert visible(UNPRINTABLE[1:]).isprintable()


@given(st.text())
def test_one_line_is_printable_and_leaves_printable_text(text: str) -> None:
    assert one_line(text).isprintable()
    assert not text.isprintable() or one_line(text) == text


def test_an_unbroken_line_is_no_markup_and_is_not_wrapped() -> None:
    assert to_text(Line("[/x][red]\n", unbroken=True)) == "[/x][red]\\n\n"
    path = "run folder/" * 20
    assert to_text(Line(path, unbroken=True), width=40) == f"{path}\n"
    assert to_text(Line(path), width=40).count("\n") > 1


def test_findings_are_one_line_each() -> None:
    forged = "x\n\nThe data passed: no finding.\n\u202e"
    place = Place(f"{forged}.jsonl", 3, forged)
    finding = Finding("malformed", place, f"expected {forged}", f"found {forged}")
    check = CheckResult("schema", "3 lines", (finding,), {"malformed": 1})
    text = to_text(*findings([check]))
    assert "\u202e" not in text
    assert not any(line.startswith("The data passed") for line in text.splitlines())
    assert text.count("x\\n\\nThe data passed") == 4


@pytest.mark.parametrize("name", ["[/x]run", "[red]run"])
def test_the_title_of_a_table_is_no_markup(name: str) -> None:
    effect = CalibrationEffect(decoding=None, groups=(), notes=())
    assert name in to_text(*effect_parts(name, effect))


def test_a_folder_is_no_markup(tmp_path: Path) -> None:
    folder = tmp_path / "[/x]a\nb"
    folder.mkdir(parents=True)
    parts = adapter_parts([audit_adapter(folder, keep=5)], None, fail_on="error")
    assert "[/x]a\\nb" in to_text(*parts).replace("\n", "")
