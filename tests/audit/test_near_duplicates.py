"""Near duplicates: the cosines, that none is missed, and that many copies take bounded work."""

from __future__ import annotations

import itertools
import math
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import record, write_jsonl
from hypothesis import example, given, settings
from hypothesis import strategies as st
from messages import assert_says
from sklearn.feature_extraction.text import TfidfVectorizer

from pact_eval._json import Json
from pact_eval.audit import near_duplicates, separation
from pact_eval.audit import near_duplicates as context_vectors
from pact_eval.audit.findings import Collector, Finding
from pact_eval.audit.near_duplicates import NearDuplicates, add_near_duplicates
from pact_eval.data.files import DataFile
from pact_eval.data.index import index_of_records

Rows = list[dict[str, Any]]

SEAL = "Clerk: The seal of the north gate is intact, and the lamp above it burns at night."
LAMP = "Clerk: The seal of the south gate is intact, and the lamp above it burns at night."
ACROSS, WITHIN = "near-duplicate", "near-duplicate-within"


@dataclass(frozen=True)
class Search:
    """What a search measured, found and counted."""

    measured: NearDuplicates
    findings: tuple[Finding, ...]
    counts: dict[str, int]

    @property
    def cosines(self) -> dict[tuple[str, str, str], float]:
        """The cosine by code, id and id of the neighbour."""
        pattern = re.compile(r"cosine (\S+) to \S+:\d+ \(id (\S+)\)")
        cosine_of = {}
        for finding in self.findings:
            match = pattern.fullmatch(finding.actual)
            assert match is not None
            cosine_of[finding.code, str(finding.place.record_id), match[2]] = float(match[1])
        return cosine_of


def search(folder: Path, *files: Rows, threshold: float = 0.7, keep: int = 10_000) -> Search:
    """Search the files a.jsonl, b.jsonl, ..."""
    data = [
        DataFile(name, "eval", write_jsonl(folder / name, rows))
        for name, rows in zip(("a.jsonl", "b.jsonl", "c.jsonl"), files, strict=False)
    ]
    findings = Collector(separation.CHECK.name, keep)
    measured, _ = add_near_duplicates(index_of_records(data), findings, threshold=threshold)
    result = findings.result("")
    return Search(measured, result.findings, dict(result.counts))


def bases(states: list[Any], prefix: str = "f") -> Rows:
    """One record of a family of its own each."""
    return [record(f"{prefix}{number}-base", state=state) for number, state in enumerate(states)]


def sentences(rng: np.random.Generator, n: int, n_words: int, vocabulary: int = 4000) -> list[str]:
    """Texts of made-up words."""
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(rng.choice(letters, rng.integers(3, 9))) for _ in range(vocabulary)]
    return [" ".join(rng.choice(words, n_words)) for _ in range(n)]


def edited(rng: np.random.Generator, text: str, n_words: int) -> str:
    words = text.split()
    for place in rng.choice(len(words), n_words, replace=False):
        words[place] = "".join(rng.permutation(list("xyzuvw")))
    return " ".join(words)


def sklearn_cosines(texts: list[str]) -> Any:
    vectorizer = TfidfVectorizer(
        analyzer="char",
        ngram_range=(5, 5),
        preprocessor=lambda text: " ".join(text.lower().split()),
    )
    vectors = vectorizer.fit_transform(texts)
    return (vectors @ vectors.T).toarray()


def copies(n: int) -> list[str]:
    """Texts that differ in two numbers; those that do in one only are nearer."""
    (body,) = sentences(np.random.default_rng(10), 1, 150)
    return [f"{body} Parcel {number // 90 + 10}, shelf {number % 90 + 10}." for number in range(n)]


@contextmanager
def changed(**constants: int) -> Iterator[None]:
    """Change constants of the search; for use inside a property test."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in constants.items():
            patch.setattr(near_duplicates, name, value)
        yield


@pytest.fixture
def n_cosines(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many cosines were computed, call by call."""
    counted: list[int] = []
    compute = near_duplicates.cosines

    def counting(vectors: Any, row: Any, other: Any) -> Any:
        counted.append(len(row))
        return compute(vectors, row, other)

    monkeypatch.setattr(near_duplicates, "cosines", counting)
    return counted


def test_a_neighbour_in_another_file_is_shown_beside_its_record(tmp_path: Path) -> None:
    result = search(tmp_path, bases([SEAL], "a"), bases([LAMP], "b"))
    (finding,) = result.findings
    assert (finding.code, finding.severity) == (ACROSS, "error")
    assert str(finding.place) == "b.jsonl:1 (id b0-base)"
    assert_says(finding.actual, "cosine 0.85", "a.jsonl:1", "(id a0-base)")
    assert finding.comparison is not None
    parts = [segment for segment in finding.comparison.segments if segment.kind == "changed"]
    assert [(segment.left, segment.right) for segment in parts] == [("north", "south")]
    assert math.isnan(result.measured.largest_within)


def test_a_neighbour_in_the_same_file_is_a_note_for_both_families(tmp_path: Path) -> None:
    result = search(tmp_path, bases([SEAL, "Nothing of the kind stands here.", LAMP]))
    assert result.cosines.keys() == {(WITHIN, "f0-base", "f2-base"), (WITHIN, "f2-base", "f0-base")}
    assert {finding.severity for finding in result.findings} == {"note"}
    assert math.isnan(result.measured.largest_across)


def test_the_nearest_of_each_earlier_file_is_named_once_a_pair_of_families(tmp_path: Path) -> None:
    near, nearer = SEAL.replace("night", "dawn"), SEAL.replace("night", "nights")
    train = bases([near, nearer], "a")
    pair = [record("c0-base", state=SEAL), record("c0-counterfactual", state=f"{SEAL} So.")]
    result = search(tmp_path, train, bases([near], "b"), pair)
    across = {key for key in result.cosines if key[0] == ACROSS}
    assert across == {
        (ACROSS, "b0-base", "a1-base"),  # a0 has the same context: that is shared-context
        (ACROSS, "c0-base", "a1-base"),
        (ACROSS, "c0-base", "b0-base"),
    }


@pytest.mark.parametrize("seed", [1, 2])
def test_cosines_against_sklearn(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    texts = sentences(rng, 60, 40, vocabulary=120)
    texts += [edited(rng, text, 4).title().replace(" ", "  \n", 3) for text in texts[:20]]
    result = search(tmp_path, bases(texts), threshold=0.05)
    expected = sklearn_cosines(texts)
    np.fill_diagonal(expected, -1)
    assert result.measured.largest_within == pytest.approx(expected.max(), abs=3e-3)
    assert len(result.cosines) == len(texts)
    for (_, row, other), cosine in result.cosines.items():
        n, m = (
            int(record_id.removeprefix("f").removesuffix("-base")) for record_id in (row, other)
        )
        assert cosine == pytest.approx(expected[n, m], abs=0.008)
        assert expected[n, m] == pytest.approx(expected[n].max(), abs=3e-3)


def test_cosines_against_hand_computation(tmp_path: Path) -> None:
    # 5-grams abcde, bcdef in both; abcde alone is 1 of 2; idf of the shared one is 1
    result = search(tmp_path, bases(["abcdef", "abcde"]), threshold=0.1)
    other = math.log(3 / 2) + 1
    assert result.measured.largest_within == pytest.approx(1 / math.hypot(1, other), abs=1e-6)


WORDS = st.sampled_from(["amber", "brook", "cedar", "delta", "ember", "fjord", "grove", "heath"])
CONTEXTS = st.tuples(st.integers(0, 5), st.lists(WORDS, min_size=1, max_size=9).map(" ".join))
FILE = st.lists(CONTEXTS, min_size=1, max_size=8)


Contexts = list[list[tuple[int, str]]]


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(FILE, min_size=1, max_size=3), st.floats(0.05, 1), st.sampled_from([1, 50]))
@example([[(0, "amber brook"), (1, "amber brook")], [(2, "amber brook"), (3, "delta")]], 1.0, 50)
def test_no_near_duplicate_is_missed_against_brute_force(
    files: Contexts, threshold: float, crowd: int
) -> None:
    compare_with_brute_force(files, threshold, crowd)


@pytest.mark.parametrize("crowd", [1, 50])
@pytest.mark.parametrize("threshold", [0.15, 0.45, 0.75, 1.0])
def test_some_near_duplicates_against_brute_force(threshold: float, crowd: int) -> None:
    """Three files of contexts of few words, of six families, drawn once."""
    rng = np.random.default_rng(13)
    words = ["amber", "brook", "cedar", "delta", "ember", "fjord"]
    files = [
        [(int(rng.integers(6)), " ".join(rng.choice(words, rng.integers(1, 6)))) for _ in range(12)]
        for _ in range(3)
    ]
    compare_with_brute_force(files, threshold, crowd)


def compare_with_brute_force(files: Contexts, threshold: float, crowd: int) -> None:
    rows = [
        [
            record(f"{n}.{m}", family=f"f{family}", state=text)
            for m, (family, text) in enumerate(file)
        ]
        for n, file in enumerate(files)
    ]
    pieces = {"_FIRST_PIECE": 2, "_LAST_PIECE": 4, "_BLOCK_ROWS": 3}
    with tempfile.TemporaryDirectory() as folder, changed(CROWD=crowd, **pieces):
        result = search(Path(folder), *rows, threshold=threshold)
    expected = brute_force([context for file in files for context in file], [*map(len, files)])
    cosine_of: dict[Any, float] = {}
    for (code, row, other), cosine in result.cosines.items():
        (n, m), (other_n, _) = ([*map(int, record_id.split("."))] for record_id in (row, other))
        key = code, n, files[n][m][0], other_n
        cosine_of[key] = max(cosine, cosine_of.get(key, 0))
    assert {
        key for key, cosine in expected.items() if cosine > threshold + 1e-3
    } <= cosine_of.keys()
    assert all(expected[key] >= threshold - 1e-3 for key in cosine_of)
    if result.measured.exact:
        assert all(abs(expected[key] - cosine) < 0.006 for key, cosine in cosine_of.items())
    else:
        assert crowd == 1


def brute_force(contexts: list[tuple[int, str]], lengths: list[int]) -> dict[Any, float]:
    """The largest cosine by code, file, family and file of the neighbour; every pair in a loop."""
    cosines = sklearn_cosines([text for _, text in contexts])
    file = np.repeat(np.arange(len(lengths)), lengths).tolist()
    largest: dict[Any, float] = {}
    for row, other in itertools.permutations(range(len(contexts)), 2):
        (family, text), (other_family, other_text) = contexts[row], contexts[other]
        shared = file[row] != file[other] and text == other_text
        if family == other_family or file[other] > file[row] or shared:
            continue
        code = WITHIN if file[row] == file[other] else ACROSS
        key = code, file[row], family, file[other]
        largest[key] = max(cosines[row, other], largest.get(key, 0))
    return largest


@pytest.mark.parametrize(("crowd", "n"), [(2, 2), (2, 3), (5, 5), (5, 6), (None, 50), (None, 51)])
def test_nearest_neighbours_are_certain_until_a_context_has_a_crowd(
    tmp_path: Path, crowd: int | None, n: int
) -> None:
    """Each of n copies has n - 1 others; 50 are a crowd."""
    with changed(**({} if crowd is None else {"CROWD": crowd})):
        result = search(tmp_path, bases(copies(n)))
    assert result.measured.exact is (n - 1 < (crowd or 50))
    assert result.counts == {WITHIN: n}


def test_copies_of_a_template_are_compared_until_each_has_its_crowd(
    tmp_path: Path, n_cosines: list[int]
) -> None:
    """Of 1,770 pairs of 60 copies a fraction is compared; of other contexts, none."""
    others = sentences(np.random.default_rng(8), 20, 40)
    with changed(CROWD=3, _FIRST_PIECE=5, _LAST_PIECE=20, _BLOCK_ROWS=7):
        result = search(tmp_path, bases(others + copies(60)))
    assert (result.measured.exact, result.counts) == (False, {WITHIN: 60})
    assert sum(n_cosines) < 500


def test_copies_that_a_crowd_has_no_room_for_are_reported(tmp_path: Path) -> None:
    *alike, one, another = copies(302)
    crowd = [record(f"a{n}", family="a", state=state) for n, state in enumerate(alike)]
    of_crowd = record("c", family="a", state=another)
    with changed(CROWD=2, _FIRST_PIECE=10, _LAST_PIECE=20, _BLOCK_ROWS=10):
        result = search(tmp_path, [*crowd, record("b", state=one)], [of_crowd])
    assert result.counts == {WITHIN: 2, ACROSS: 1}
    assert (ACROSS, "c", "b") in result.cosines


def test_equal_contexts_take_bounded_work(tmp_path: Path, n_cosines: list[int]) -> None:
    same = [SEAL] * 300
    result = search(tmp_path, bases(same, "a"), bases([*same, LAMP], "b"), threshold=0.2)
    assert result.counts == {WITHIN: 601, ACROSS: 1}
    assert result.cosines[ACROSS, "b300-base", "a0-base"] < 1
    assert sum(n_cosines) < 10 * 601


@pytest.mark.slow
def test_what_all_contexts_share_makes_no_pair_likely(tmp_path: Path, n_cosines: list[int]) -> None:
    rng = np.random.default_rng(11)
    (shared,) = sentences(rng, 1, 60)
    texts = [f"{shared} {text}" for text in sentences(rng, 400, 20)]
    texts += [edited(rng, text, 2) for text in texts[:50]]
    result = search(tmp_path, bases(texts))
    assert result.counts == {WITHIN: 100}
    assert sum(n_cosines) < 300


def test_long_contexts_are_hashed_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [SEAL, LAMP, "", "Nothing of the kind stands here.", f"{LAMP} Indeed."]
    at_once = search(tmp_path, bases(texts))
    monkeypatch.setattr(context_vectors, "_CHUNK_CHARACTERS", 100)
    in_turn = search(tmp_path, bases(texts))
    assert at_once.findings == in_turn.findings
    assert repr(at_once.measured) == repr(in_turn.measured)


def test_equal_contexts_are_reported_within_a_file_only(tmp_path: Path) -> None:
    result = search(tmp_path, bases([SEAL, SEAL], "a"), bases([SEAL], "b"), threshold=1.0)
    assert result.measured.exact
    assert result.cosines == {
        (WITHIN, "a0-base", "a1-base"): 1.0,
        (WITHIN, "a1-base", "a0-base"): 1.0,
    }


def test_members_of_a_family_are_never_compared(tmp_path: Path) -> None:
    pair = [record("f-base", state=SEAL), record("f-counterfactual", state=LAMP)]
    other = [record("f-other", state=f"{SEAL} Indeed.")]
    result = search(tmp_path, pair, other, threshold=0.1)
    assert not result.counts
    assert math.isnan(result.measured.largest_across)


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\xa0", "\n\n", " \t "])
def test_white_space_and_case_make_no_difference(tmp_path: Path, separator: str) -> None:
    other = f"{separator}{SEAL.upper().replace(' ', separator)}"
    result = search(tmp_path, bases(["x", SEAL], "a"), bases(["y", other], "b"))
    assert result.cosines == {(ACROSS, "b1-base", "a1-base"): 1.0}
    assert str(result.findings[0].place) == "b.jsonl:2 (id b1-base)"


def test_the_form_of_a_context_makes_no_difference(tmp_path: Path) -> None:
    speaker, _, text = SEAL.partition(" ")
    states: list[Json] = [
        SEAL,
        [speaker, text],
        {"page": 3, "turns": [{"who": speaker, "says": text}]},
    ]
    result = search(
        tmp_path, *(bases([state], name) for state, name in zip(states, "abc", strict=True))
    )
    assert set(result.cosines.values()) == {1.0}
    assert result.counts == {ACROSS: 3}


def test_contexts_without_text_are_left_out(tmp_path: Path) -> None:
    states: list[Json] = ["", {"n": 1}, [], " \u2028", None]
    result = search(tmp_path, bases(states, "a"), bases([*states[1:], ""], "b"), threshold=0.1)
    assert not result.findings
    assert (result.measured.contexts, result.measured.without_text) == (0, 10)
    assert math.isnan(result.measured.largest_within)


def test_a_text_shorter_than_an_ngram_is_one(tmp_path: Path) -> None:
    result = search(tmp_path, bases(["yes", "No", "no", "nod", "yes."]), threshold=0.1)
    assert result.cosines.keys() == {
        (WITHIN, "f1-base", "f2-base"),
        (WITHIN, "f2-base", "f1-base"),
    }


def test_the_order_of_the_files_decides_the_place_only(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    texts = sentences(rng, 40, 30)
    a, b = bases(texts, "a"), bases([edited(rng, text, 2) for text in texts], "b")
    one, other = search(tmp_path, a, b), search(tmp_path, b, a)
    turned = {(code, row, neighbour) for code, neighbour, row in other.cosines}
    assert one.cosines.keys() == turned
    assert one.measured.largest_across == pytest.approx(other.measured.largest_across)
    assert one.counts == {ACROSS: 40}


@pytest.mark.parametrize(("most", "is_known"), [(3, True), (2, False)])
def test_cosines_below_the_threshold_are_known_of_small_datasets(
    most: int, is_known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(near_duplicates, "_MOST_ROWS_OF_ALL_PAIRS", most)
    measured = search(
        tmp_path, bases([SEAL, LAMP]), bases([LAMP[:40]], "b"), threshold=0.99
    ).measured
    for largest in (measured.largest_within, measured.largest_across):
        assert 0 < largest < 0.99 if is_known else math.isnan(largest)


def test_no_record_at_all_is_no_near_duplicate() -> None:
    findings = Collector("separation", 5)
    measured, _ = add_near_duplicates(index_of_records([]), findings, threshold=0.8)
    assert measured.contexts == 0
    assert not findings.result("").counts


@pytest.mark.parametrize("threshold", [0.0, -0.5, 1.01, math.nan])
def test_a_threshold_that_is_no_cosine_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match="expected a threshold in"):
        add_near_duplicates(index_of_records([]), Collector("separation", 5), threshold=threshold)
