"""What the check "certificates" counts and reports of one pair that is written out here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import record, write_jsonl
from messages import assert_says

from pact_eval.audit.certificates import Coverage, _is_edit, _nearest, _still_holds
from pact_eval.audit.context import DataAuditSettings, DatasetSource
from pact_eval.audit.dataset import audit_data
from pact_eval.audit.findings import CheckResult

HOLDS = "Box seven holds the state."
OPEN = "The label says open."
SHUT = "The label says shut."


def certificate(state: str = "supported", **pair: str) -> dict[str, Any]:
    sentences = {"left": HOLDS, "right": OPEN, "negative_left": HOLDS, "negative_right": SHUT}
    sentences |= pair
    return {
        "spec": {
            "atoms": [{"id": "open", "statement": "It is open."}],
            "focus_atom": "open",
            "focus_evidence": [
                {"path": ["0"], "text": sentences["left"]},
                {"path": ["1"], "text": sentences["right"]},
            ],
        },
        "fact_states": {"open": state},
        "verified_pair": sentences,
    }


def pair(
    base: list[Any] | None = None,
    other: list[Any] | None = None,
    *,
    name: str = "f1",
    of_base: Any = None,
    of_other: Any = None,
    **wordings: str,
) -> list[dict[str, Any]]:
    """Return a base and a counterfactual record whose contexts are lists of texts."""
    more = "Nobody came by."
    return [
        record(
            f"{name}-base",
            state=base or [HOLDS, OPEN, more],
            evidence_certificate=of_base or certificate(**wordings),
        ),
        record(
            f"{name}-counterfactual",
            state=other or [HOLDS, SHUT, more],
            evidence_certificate=of_other or certificate("refuted", **wordings),
        ),
    ]


def checked(folder: Path, rows: list[Any], **settings: Any) -> CheckResult:
    write_jsonl(folder / "train.jsonl", rows)
    only = DataAuditSettings(only=("certificates",), **settings)
    audit = audit_data(DatasetSource.of_folder(folder), only)
    return next(check for check in audit.checks if check.check == "certificates")


def findings_of(result: CheckResult) -> list[tuple[str, int | None, str]]:
    """Return code, line and text of the findings."""
    return [(finding.code, finding.place.line, finding.actual) for finding in result.findings]


def test_a_sound_pair_is_covered(tmp_path: Path) -> None:
    result = checked(tmp_path, [*pair(), *pair(name="f2"), record("alone-base")])
    assert findings_of(result) == []
    assert result.measured == Coverage(ablated=4, records=5, pairs=2, families=3)
    assert (result.scope, result.skipped) == ("3 families", None)


def test_a_faulty_pair_is_not_among_the_certified(tmp_path: Path) -> None:
    faulty = pair(name="f2", of_other=certificate("supported"))
    result = checked(tmp_path, [*faulty, *pair()])
    assert findings_of(result) == [("fact-not-flipped", 2, "supported and supported")]
    assert result.measured == Coverage(ablated=4, records=4, pairs=1, families=2)


def test_a_note_leaves_a_pair_certified(tmp_path: Path) -> None:
    rows = pair([OPEN, HOLDS, "So."], [SHUT, HOLDS, "So."])
    result = checked(tmp_path, rows)
    assert [(code, line) for code, line, _ in findings_of(result)] == [
        ("focus-path", 1), ("focus-path", 1), ("focus-path", 2), ("focus-path", 2)
    ]  # fmt: skip
    assert_says(result.findings[0].expected, HOLDS, "at 0")
    assert_says(result.findings[0].actual, "elsewhere", "leaf")
    assert result.measured == Coverage(ablated=2, records=2, pairs=1, families=1)


@pytest.mark.parametrize("lacking", [0, 1])
def test_a_pair_needs_both_certificates(tmp_path: Path, lacking: int) -> None:
    rows = pair()
    del rows[lacking]["evidence_certificate"]
    result = checked(tmp_path, rows)
    assert findings_of(result) == [("certificate-missing", lacking + 1, "none")]
    assert result.measured == Coverage(ablated=0, records=2, pairs=0, families=1)


def test_a_file_without_certificates_is_a_note_and_others_are_checked(tmp_path: Path) -> None:
    bare = [record("g-base"), record("g-counterfactual")]
    write_jsonl(tmp_path / "holdout.jsonl", bare)
    result = checked(tmp_path, pair())
    assert findings_of(result) == [("certificates-none", None, "none")]
    assert str(result.findings[0].place) == "holdout.jsonl"
    assert result.skipped is None
    assert result.measured == Coverage(ablated=2, records=4, pairs=1, families=2)


def test_no_certificate_at_all_skips_the_check(tmp_path: Path) -> None:
    result = checked(tmp_path, [record("g-base"), record("g-counterfactual")])
    assert_says(result.skipped, "no record", "evidence")
    assert result.counts == {"certificates-none": 1}


@pytest.mark.parametrize(
    ("sentence", "is_trivial"),
    [("Box seven!", True), ("Box seven holds.", False), ("- Box - seven -", True)],
)
def test_three_words_are_a_sentence(tmp_path: Path, sentence: str, is_trivial: bool) -> None:
    rows = pair(
        [sentence, OPEN, "So."], [sentence, SHUT, "So."], left=sentence, negative_left=sentence
    )
    result = checked(tmp_path, rows)
    assert findings_of(result) == [("focus-trivial", 1, repr(sentence))] * is_trivial
    if is_trivial:
        assert "of 3 words" in result.findings[0].expected


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_sentence_inside_the_other_is_an_overlap(tmp_path: Path, side: str) -> None:
    longer = f"{OPEN} Box seven has it."
    if side == "left":
        left, right, negative = "The label says OPEN.", longer, f"{SHUT} Box seven has it."
    else:
        left, right, negative = f"Note: {OPEN.upper()}", OPEN, SHUT
    rows = pair(
        [left, right, "So."],
        [left, negative, "So."],
        left=left, negative_left=left, right=right, negative_right=negative,
    )  # fmt: skip
    codes = checked(tmp_path, rows).counts
    assert codes["focus-overlap"] == 1


def test_sentences_that_share_words_do_not_overlap(tmp_path: Path) -> None:
    left = "The label of box seven says open."
    rows = pair([left, OPEN, "So."], [left, SHUT, "So."], left=left, negative_left=left)
    assert findings_of(checked(tmp_path, rows)) == []


@pytest.mark.parametrize(
    ("states", "text"),
    [(("unknown", "refuted"), "unknown and refuted"), (("refuted", "supported"), None)],
)
def test_a_fact_is_supported_once_and_refuted_once(
    tmp_path: Path, states: tuple[str, str], text: str | None
) -> None:
    rows = pair(of_base=certificate(states[0]), of_other=certificate(states[1]))
    assert [actual for _, _, actual in findings_of(checked(tmp_path, rows))] == (
        [text] if text else []
    )


def test_a_fact_that_a_certificate_leaves_out_is_in_no_state(tmp_path: Path) -> None:
    bare = certificate()
    bare["fact_states"] = {}
    result = checked(tmp_path, pair(of_base=bare))
    assert findings_of(result) == [("fact-not-flipped", 2, "none and refuted")]


def test_a_sentence_that_occurs_twice_is_counted(tmp_path: Path) -> None:
    rows = pair([HOLDS, OPEN, f"Again: {HOLDS}"], [HOLDS, SHUT, f"Again: {HOLDS}"])
    assert findings_of(checked(tmp_path, rows)) == [
        ("focus-repeated", 1, "2 times"), ("focus-repeated", 2, "2 times")
    ]  # fmt: skip


def test_a_quote_of_neither_wording_is_told(tmp_path: Path) -> None:
    certificates = [certificate(), certificate("refuted")]
    for value, quote in zip(certificates, ("Some label.", SHUT), strict=True):
        value["spec"]["focus_evidence"][1]["text"] = quote
    rows = pair(of_base=certificates[0], of_other=certificates[1])
    result = checked(tmp_path, rows)
    assert findings_of(result) == [("focus-quote", 1, "'Some label.'")]
    assert repr(OPEN) in result.findings[0].expected


def test_a_missing_sentence_names_the_nearest_text(tmp_path: Path) -> None:
    near = "The label says nothing at all."
    rows = pair([HOLDS, near, "So."], [HOLDS, SHUT, "So."])
    result = checked(tmp_path, rows)
    assert findings_of(result) == [
        ("focus-not-found", 1, f"nearest: {near}"),
        ("edit-elsewhere", 2, "another edit"),
    ]
    assert result.measured == Coverage(ablated=1, records=2, pairs=0, families=1)


def test_the_other_members_wording_can_be_deleted(tmp_path: Path) -> None:
    rows = pair([HOLDS, SHUT, "So."], [HOLDS, SHUT, "So."])
    result = checked(tmp_path, rows)
    assert findings_of(result)[-1] == ("focus-other-wording", 1, repr(SHUT))
    assert result.measured.ablated == 2


@pytest.mark.parametrize(
    ("context", "text"),
    [
        ([HOLDS], "nothing is left"),
        ([HOLDS, "Again: the LABEL says   open!"], "another spelling of"),
    ],
)
def test_a_sentence_that_is_not_gone(tmp_path: Path, context: list[str], text: str) -> None:
    """Either nothing else is in the context, or another spelling of it is."""
    left = HOLDS if len(context) == 1 else OPEN
    base = [left, *context[1:]] if len(context) == 1 else [HOLDS, OPEN, *context[1:]]
    wordings = {"right": left, "negative_right": SHUT}
    rows = pair(base, [HOLDS, SHUT, *context[1:]], **wordings)
    result = checked(tmp_path, rows)
    assert any(code == "not-ablated" and text in actual for code, _, actual in findings_of(result))
    assert result.measured.ablated == 1


@pytest.mark.parametrize("more", [[], ["One more."]])
def test_the_edit_is_the_only_difference(tmp_path: Path, more: list[str]) -> None:
    rows = pair(None, [HOLDS, SHUT, "Nobody came by." if more else "Somebody came by.", *more])
    result = checked(tmp_path, rows)
    assert findings_of(result) == [("edit-elsewhere", 2, "another edit")]
    assert_says(result.findings[0].expected, repr(OPEN), "replaced by", repr(SHUT))
    assert result.findings[0].comparison is not None


def test_the_old_wording_may_not_remain(tmp_path: Path) -> None:
    rows = pair([HOLDS, OPEN, OPEN], [HOLDS, SHUT, OPEN])
    counts = checked(tmp_path, rows).counts
    assert counts == {"focus-repeated": 1, "old-wording-remains": 1}


def test_two_changed_sentences_are_no_edit(tmp_path: Path) -> None:
    other = "Box eight holds the state."
    rows = pair(None, [other, SHUT, "Nobody came by."], negative_left=other)
    assert [code for code, _, _ in findings_of(checked(tmp_path, rows))] == ["no-changed-sentence"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"necessity_checks_passed": True}, None),
        ({"necessity_checks_passed": 1}, "necessity_checks_passed: 1"),
        ({"necessity_checks_passed": False}, "necessity_checks_passed: false"),
        ({"necessity_checks_passed": []}, "necessity_checks_passed: []"),
        ({"necessity_checks_passed": None}, "necessity_checks_passed: null"),
        ({"necessity_checks": {"without_left": "unknown"}}, None),
        ({"necessity_checks": {"a": "unknown", "b": "refuted"}}, "necessity_checks.b: refuted"),
        ({"necessity_checks": {"a": 3}}, None),
        ({"necessity_checks": ["refuted"]}, None),
    ],
)
def test_necessity_checks(tmp_path: Path, changes: dict[str, Any], text: str | None) -> None:
    result = checked(tmp_path, pair(of_other=certificate("refuted") | changes))
    assert findings_of(result) == ([("necessity-failed", 2, text)] if text else [])
    assert result.measured.pairs == (0 if text else 1)


@pytest.mark.parametrize("change", ["atom", "statement", "sentence"])
def test_both_certificates_describe_one_pair(tmp_path: Path, change: str) -> None:
    other = certificate("refuted")
    atoms = other["spec"]["atoms"]
    if change == "atom":
        atoms[0]["id"] = other["spec"]["focus_atom"] = "shut"
        other["fact_states"] = {"shut": "refuted"}
    elif change == "statement":
        atoms[0]["statement"] = "It is shut."
    else:
        other["verified_pair"]["negative_right"] = "The label says locked."
    result = checked(tmp_path, pair(of_other=other))
    assert [(code, line) for code, line, _ in findings_of(result)] == [("certificates-differ", 2)]
    assert result.measured == Coverage(ablated=0, records=2, pairs=0, families=1)


@pytest.mark.parametrize(
    ("before", "after", "is_edit"),
    [
        ("an old gate", "an new gate", True),
        ("old, old and old", "old, new and old", True),
        ("old, old and old", "new, new and new", True),
        ("no such word", "no such word", False),
        ("an old gate", "my new gate", False),
        ("an old gate", "an new gates", False),
        ("an old gate", "an new gat", False),
        ("an old gate", "an new gate new gate", False),
    ],
)
def test_edits_replace_some_of_the_old_wordings(before: str, after: str, is_edit: bool) -> None:
    assert _is_edit(before, after, "old", "new") is is_edit


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("the gate is open.", True),
        ("The GATE is  open", True),
        ("The gate is not open.", False),
        ("The gate is open now.", True),
    ],
)
def test_an_old_wording_in_any_spelling(text: str, holds: bool) -> None:
    old, new = "The gate is open.", "The gate is not open."
    assert _still_holds(text, old, new) is holds


def test_an_old_wording_inside_the_new_one_does_not_count() -> None:
    new = "Today the gate is open wide."
    assert not _still_holds(f"So: {new}", "The gate is open.", new)
    assert _still_holds(f"{new} The gate is open.", "The gate is open.", new)


def test_the_nearest_text_is_cut_after_160_characters() -> None:
    text = f"gate {'x' * 155}"
    assert len(text) == 160
    assert _nearest(["far", text], "the gate") == f"nearest: {text}"
    assert _nearest([f"{text}y"], "the gate") == f"nearest: {text[:157]}..."
    assert _nearest(["far", text], "another wording") == "nothing like it"
    assert _nearest([], "the gate") == "nothing like it"
