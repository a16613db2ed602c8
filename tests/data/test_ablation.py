from __future__ import annotations

from typing import Any

import pytest
from builders import record
from hypothesis import given
from hypothesis import strategies as st

from pact_eval._json import Json, dumps
from pact_eval.data.ablation import ablate, find_sentence
from pact_eval.data.certificates import FocusSentence, parse_certificate
from pact_eval.data.records import parse_record

BASE = "Field 3 reads open."
OTHER = "Field 3 reads shut."


def certificate(**changes: Any) -> dict[str, Any]:
    return {
        "spec": {
            "atoms": [{"id": "open", "statement": "The gate is open."}],
            "focus_atom": "open",
            "focus_evidence": [
                {"path": ["0", "text"], "text": "Field 3 holds the gate."},
                {"path": ["1", "text"], "text": BASE},
            ],
        },
        "fact_states": {"open": "supported"},
        "verified_pair": {
            "left": "Field 3 holds the gate.",
            "right": BASE,
            "negative_left": "Field 3 holds the gate.",
            "negative_right": OTHER,
        },
    } | changes


def ablated(state: Json, path: tuple[str | int, ...] = (), variant: str = "base") -> Any:
    parsed = parse_record(record(state=state, variant=variant))
    return ablate(parsed, FocusSentence(path, BASE, OTHER))


def test_a_whole_turn_of_a_text_goes_with_its_sentence() -> None:
    result = ablated(f"Clerk: Noted.\nGate: {BASE}\nClerk: Thanks.")
    assert result.state == "Clerk: Noted.\nClerk: Thanks."
    assert result.removed == BASE


def test_a_sentence_inside_a_longer_turn_leaves_the_rest() -> None:
    assert ablated(f"Gate: Checked at 9. {BASE} Signed.").state == "Gate: Checked at 9. Signed."


def test_an_empty_turn_of_a_list_is_dropped_and_a_longer_one_kept() -> None:
    state: Json = [
        {"speaker": "Clerk", "text": "Noted."},
        {"speaker": "Gate", "text": BASE},
        {"speaker": "Gate", "text": f"Checked. {BASE}"},
    ]
    result = ablated(state, ("1", "text"))
    assert result.found_by == "path"
    assert result.state == [
        {"speaker": "Clerk", "text": "Noted."},
        {"speaker": "Gate", "text": "Checked."},
    ]


@pytest.mark.parametrize(
    ("state", "left"),
    [
        # Metadata go with their text, whatever their names are ...
        ({"case": "K-1", "turns": [{"by": "Gate", "note": BASE, "page": 2}]}, {"case": "K-1"}),
        ([{"zq": "Dr Lee", "kx": BASE}, {"zq": "Bo", "kx": "Ok."}], [{"zq": "Bo", "kx": "Ok."}]),
        ([["Ann", BASE], ["Bo", "Noted."]], [["Bo", "Noted."]]),
        ([["Title", [BASE]], ["Other", ["x"]]], [["Other", ["x"]]]),
        ([{"wer": {"n": "Ann"}, "was": {"de": [BASE]}}, "x"], ["x"]),
        ({"t1": {"by": "Ann", "says": BASE}, "t2": {"by": "Bo", "says": "x"}},
         {"t2": {"by": "Bo", "says": "x"}}),
        # ... the rest of a text, and other texts, do not ...
        ([{"q": "Is it open?", "a": BASE}], [{"q": "Is it open?"}]),
        ([{"by": "Ann", "says": [BASE, "Bye"]}], [{"by": "Ann", "says": ["Bye"]}]),
        ([["It rains.", BASE], ["It pours."]], [["It rains."], ["It pours."]]),
        ([{"a": BASE, "b": "six words and no full stop"}], [{"b": "six words and no full stop"}]),
        # ... and without a list the key goes, and nothing around it.
        ({"status": "late", "note": BASE}, {"status": "late"}),
        ({"order": {"status": "late", "notes": [{"by": "Ann", "text": BASE}]}},
         {"order": {"status": "late"}}),
        ([{"status": "late", "notes": [{"by": "Ann", "text": BASE}]}], [{"status": "late"}]),
    ],
)  # fmt: skip
def test_a_list_element_goes_with_its_text_by_structure(state: Json, left: Json) -> None:
    assert ablated(state).state == left


names = st.text("abcdefghijklmnop", min_size=1, max_size=6)
labels = st.sampled_from(["Ann", "Night clerk", "10:42", "K-17", "警备员"]) | st.integers(0, 9)
sentences = st.sampled_from(["It rains.", "Is it open?", "他来了。", "six words and no full stop"])


@given(
    st.lists(names, min_size=2, max_size=4, unique=True),
    st.lists(st.tuples(st.lists(labels, min_size=3, max_size=3), sentences), max_size=5),
    st.data(),
)
def test_keys_that_nobody_has_seen_change_nothing(
    keys: list[str], rows: list[tuple[list[Json], str]], data: st.DataObject
) -> None:
    """The element with the sentence is gone, and the others are as they were."""
    text = data.draw(st.sampled_from(keys))
    others = [key for key in keys if key != text]

    def element(metadata: list[Json], said: str) -> Json:
        values = dict(zip(others, metadata, strict=False)) | {text: said}
        return {key: values[key] for key in keys}

    place = data.draw(st.integers(0, len(rows)))
    kept: list[Json] = [element(*row) for row in rows]
    state = [*kept[:place], element(data.draw(st.lists(labels, min_size=3, max_size=3)), BASE)]
    for wrap in (lambda turns: turns, lambda turns: {"case": "K", "turns": turns}):
        result = ablated(wrap([*state, *kept[place:]])).state
        assert result == (wrap(kept) if kept else ("" if wrap([]) == [] else {"case": "K"}))


@pytest.mark.parametrize(
    ("state", "path", "variant", "found_by"),
    [
        ([{"text": BASE}, "x"], ("0", "text"), "base", "path"),
        ([{"text": BASE}, "x"], (0, "text"), "base", "path"),
        ([{"text": BASE}, "x"], ("9", "text"), "base", "leaf"),
        ([{"text": f"So: {BASE}"}, "x"], ("9",), "base", "substring"),
        ([{"text": OTHER}, "x"], (), "base", "other wording"),
        ([{"text": OTHER}, "x"], ("0", "text"), "counterfactual", "path"),
    ],
)
def test_the_sentence_is_looked_for_in_the_order_of_the_method(
    state: Json, path: tuple[str | int, ...], variant: str, found_by: str
) -> None:
    result = ablated(state, path, variant)
    assert result.found_by == found_by
    assert BASE not in dumps(result.state)
    assert OTHER not in dumps(result.state)


def test_a_sentence_that_stands_twice_is_deleted_twice() -> None:
    result = ablated(f"A: {BASE}\nB: He read: {BASE}")
    assert BASE not in dumps(result.state)
    assert result.state == "B: He read:"


def test_other_line_separators_are_part_of_the_text() -> None:
    assert ablated(f"Gate:\u2028{BASE}\u0085end").state == "Gate:\u2028\u0085end"


def test_a_missing_sentence_is_told() -> None:
    with pytest.raises(ValueError, match="not in the context: 'Field 3"):
        ablated("Nothing here.")


def test_the_changed_sentence_is_the_one_whose_wordings_differ() -> None:
    parsed = parse_certificate(certificate())
    assert parsed.changed == FocusSentence(("1", "text"), BASE, OTHER, BASE)
    assert parsed.fact_states == {"open": "supported"}


def test_evidence_in_the_other_order_is_matched_by_its_text() -> None:
    value = certificate()
    value["spec"]["focus_evidence"].reverse()
    assert parse_certificate(value).changed == FocusSentence(("1", "text"), BASE, OTHER, BASE)


def test_evidence_in_the_counterfactual_wording_is_matched_too() -> None:
    value = certificate()
    value["spec"]["focus_evidence"][1]["text"] = OTHER
    assert parse_certificate(value).changed.base == BASE


def test_a_certificate_without_a_change_is_told() -> None:
    value = certificate()
    value["verified_pair"]["negative_right"] = BASE
    with pytest.raises(ValueError, match="focus sentences .*got 0"):
        _ = parse_certificate(value).changed


PAIR = ("left", "negative_left", "right", "negative_right")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"spec": None}, "spec: expected an object, got null"),
        ({"spec": {"focus_evidence": []}}, "spec: focus_evidence: expected a list of 2 values"),
        ({"verified_pair": {"left": "x"}}, "verified_pair: expected negative_left, right, "),
        (
            {"verified_pair": dict.fromkeys(PAIR, "")},
            "verified_pair: left: expected text, got empty text",
        ),
        ({"fact_states": {"open": 1}}, "fact_states: open: expected one of supported, refuted"),
    ],
)
def test_a_malformed_certificate_is_told(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_certificate(certificate(**changes))


def test_every_focus_sentence_of_the_committed_holdout_can_be_deleted() -> None:
    from pathlib import Path

    import pact_fixtures
    from pact_eval.data.records import read_records

    path = Path(pact_fixtures.__file__).parent / "data" / "holdout.jsonl"
    records = read_records(path)
    for one in records:
        assert one.certificate is not None
        parsed = parse_certificate(one.certificate)
        for sentence in parsed.focus:
            result = ablate(one, sentence)
            assert result.found_by == "path"
            assert result.removed not in dumps(result.state)
    assert len(records) == 324


@pytest.mark.parametrize("state", [{BASE: 1, "text": BASE}, [{"a": {BASE: 1}}, BASE]])
def test_a_sentence_that_stays_is_told(state: Json) -> None:
    with pytest.raises(ValueError, match="still occurs"):
        ablated(state)


steps = st.sampled_from(["0", "1", "01", "a", "x", "10"]) | st.integers(-1, 2)
leaves = st.sampled_from(["It pours.", "It rains. It pours.", "", 3, None])
states: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["0", "1", "a", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def leaves_by_path(state: Json) -> dict[tuple[str, ...], str]:
    if isinstance(state, str):
        return {(): state}
    items: dict[Any, Json] = state if isinstance(state, dict) else {}
    if isinstance(state, list):
        items = dict(enumerate(state))
    return {
        (str(step), *rest): text
        for step, item in items.items()
        for rest, text in leaves_by_path(item).items()
    }


@given(states, st.lists(steps, max_size=3))
def test_a_path_leads_where_a_list_of_all_paths_says(state: Json, path: list[str | int]) -> None:
    by_path = leaves_by_path(state)
    inside = "It pours." in by_path.get(tuple(map(str, path)), "")
    assert (find_sentence(state, "It pours.", tuple(path)) == "path") == inside
