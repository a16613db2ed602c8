"""Spoilt datasets: the right check finds the fault, at the right place, and no other check does.

The tests of each check plant the faults of all its codes.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from spoiled_datasets import Data, Record, audited, counts, findings, healthy

from pact_eval.audit.context import NamedTokenizer
from pact_eval.audit.dataset import DATA_CHECKS
from pact_eval.audit.findings import CODES, failed

MODEL = Path(__file__).resolve().parents[2] / "fixtures" / "pact_fixtures" / "model"

FAMILIES = 10
NEXT = 2 * FAMILIES + 1
"""The line after the last of a file."""

Spoil = Callable[[Data], None]
SpoilFiles = Callable[[Path], None]


@dataclass(frozen=True)
class Corruption:
    """A way to spoil a healthy dataset, and where that must be found."""

    code: str
    place: str
    spoil: Spoil = lambda _: None
    spoil_files: SpoilFiles = lambda _: None
    alone: bool = False
    """Whether no other check may say anything worse than a note."""


CORRUPTIONS: list[Corruption] = []


def corruption(code: str, place: str, *, alone: bool = False) -> Callable[[Spoil], Spoil]:
    def register(spoil: Spoil) -> Spoil:
        CORRUPTIONS.append(Corruption(code, place, spoil=spoil, alone=alone))
        return spoil

    return register


def file_corruption(
    code: str, place: str, *, alone: bool = False
) -> Callable[[SpoilFiles], SpoilFiles]:
    def register(spoil: SpoilFiles) -> SpoilFiles:
        CORRUPTIONS.append(Corruption(code, place, spoil_files=spoil, alone=alone))
        return spoil

    return register


def decision(record: Record) -> dict[str, Any]:
    question_of_record: dict[str, Any] = record["input"]["questions"]["decision"]
    return question_of_record


def change_manifest(folder: Path, **changes: Any) -> None:
    path = folder / "manifest.json"
    value = json.loads(path.read_bytes()) | changes
    path.write_text(json.dumps({k: v for k, v in value.items() if v is not None}))


def edit_text(state: Any, change: Callable[[str], str]) -> Any:
    """Changes the first text of a context that is longer than a name."""
    if isinstance(state, str):
        return change(state)
    state = copy.deepcopy(state)
    turns = (
        state
        if isinstance(state, list)
        else next(v for v in state.values() if v and isinstance(v, list))
    )
    for turn in turns:
        key = max(turn, key=lambda name: len(turn[name])) if isinstance(turn, dict) else None
        if key is not None:
            turn[key] = change(turn[key])
            return state
    raise AssertionError(state)


def add_text(record: Record, more: str) -> None:
    state = record["input"]["state"]
    record["input"]["state"] = edit_text(state, lambda text: f"{text} {more}")


# bytes


@file_corruption("hash-mismatch", "holdout.jsonl", alone=True)
def white_space_in_a_line(folder: Path) -> None:
    path = folder / "holdout.jsonl"
    path.write_bytes(path.read_bytes().replace(b'{"id": ', b'{ "id": ', 1))


@file_corruption("fingerprint-mismatch", "holdout.jsonl")
def other_fingerprint(folder: Path) -> None:
    change_manifest(folder, eval_record_fingerprint="0" * 64)


# form


@file_corruption("not-json", "train.jsonl:4")
def a_line_cut_short(folder: Path) -> None:
    lines = (folder / "train.jsonl").read_bytes().split(b"\n")
    lines[3] = lines[3][:-10]
    (folder / "train.jsonl").write_bytes(b"\n".join(lines))


@corruption("malformed", "holdout.jsonl:6 (id {id})")
def reference_is_no_answer(data: Data) -> None:
    data.holdout[5]["reference"]["target"] = "none of these"


@corruption("duplicate-id", "train.jsonl:2 (id {id})", alone=True)
def same_id_twice(data: Data) -> None:
    data.train[1]["id"] = data.train[0]["id"]


@corruption("split-mismatch", "holdout.jsonl:1 (id {id})", alone=True)
def training_records_in_the_holdout(data: Data) -> None:
    for record in data.holdout[:2]:
        record["split"] = "train"


# questions


@corruption("letter-in-question", "holdout.jsonl:1 (id {id})", alone=True)
def letters_in_the_question(data: Data) -> None:
    for record in data.holdout[:2]:
        decision(record)["instructions"] += " Choose option A or B."


# families


@corruption("family-labels", "holdout.jsonl:2 (id {id})", alone=True)
def other_domain(data: Data) -> None:
    data.holdout[1]["domain"] = "elsewhere"


@corruption("answers-differ", "train.jsonl:2 (id {id})")
def answers_in_another_order(data: Data) -> None:
    data.train[:] = [r for r in data.train if decision(r)["type"] == "choice"] + data.train
    for row in range(len(data.train) - 1, -1, -1):
        if data.train[row] in data.train[:row]:
            del data.train[row]
    criteria = decision(data.train[1])["criteria"]
    decision(data.train[1])["criteria"] = dict(reversed(criteria.items()))


@corruption("question-differs", "holdout.jsonl:2 (id {id})", alone=True)
def a_space_more_in_the_question(data: Data) -> None:
    decision(data.holdout[1])["instructions"] += " "


@corruption("reference-same", "holdout.jsonl:2 (id {id})", alone=True)
def same_reference(data: Data) -> None:
    data.holdout[1]["reference"] = data.holdout[0]["reference"]


# certificates


@corruption("certificate-missing", "holdout.jsonl:2 (id {id})", alone=True)
def a_certificate_gone(data: Data) -> None:
    del data.holdout[1]["evidence_certificate"]


@corruption("certificate-malformed", "holdout.jsonl:2 (id {id})", alone=True)
def a_state_that_is_none(data: Data) -> None:
    states = data.holdout[1]["evidence_certificate"]["fact_states"]
    states[next(iter(states))] = "perhaps"


@corruption("certificates-differ", "holdout.jsonl:2 (id {id})", alone=True)
def another_pair_in_the_certificate(data: Data) -> None:
    data.holdout[1]["evidence_certificate"]["verified_pair"]["negative_left"] += " Or not."


@corruption("focus-not-found", "holdout.jsonl:1 (id {id})", alone=True)
def a_sentence_that_is_not_there(data: Data) -> None:
    for record in data.holdout[:2]:
        pair = record["evidence_certificate"]["verified_pair"]
        wrong = pair["left"] + " Indeed."
        pair["left"] = pair["negative_left"] = wrong
        record["evidence_certificate"]["spec"]["focus_evidence"][0]["text"] = wrong


@corruption("old-wording-remains", "holdout.jsonl:2 (id {id})", alone=True)
def both_wordings(data: Data) -> None:
    sentence = data.holdout[0]["evidence_certificate"]["verified_pair"]["right"]
    for record in data.holdout[:2]:
        add_text(record, sentence)


@corruption("fact-not-flipped", "holdout.jsonl:2 (id {id})", alone=True)
def the_fact_does_not_flip(data: Data) -> None:
    certificates = [record["evidence_certificate"] for record in data.holdout[:2]]
    atom = certificates[0]["spec"]["focus_atom"]
    certificates[1]["fact_states"][atom] = certificates[0]["fact_states"][atom]


@corruption("necessity-failed", "holdout.jsonl:2 (id {id})", alone=True)
def necessity_failed(data: Data) -> None:
    data.holdout[1]["evidence_certificate"]["necessity_checks_passed"] = False


# separation


def copied_to_holdout(data: Data, **labels: Any) -> None:
    """Lets the first training pair stand in the holdout too, under names of its own."""
    for record in data.train[:2]:
        twin = copy.deepcopy(record)
        own = {
            "id": f"twin-{record['variant']}",
            "family": "twin",
            "source_family": "twins-01",
            "split": "validation",
            "provenance": {"source_id": "synthetic:twin"},
        }
        data.holdout.append(twin | own | {key: record[key] for key in labels})
        if "source_id" in labels:
            data.holdout[-1]["provenance"] = record["provenance"]


def own_context(data: Data) -> None:
    """Makes the copied pair's context nearly the training pair's: a name differs."""
    for record in data.holdout[-2:]:
        record["input"]["state"] = edit_text(record["input"]["state"], lambda text: f"Hm. {text}")


@corruption("shared-context", f"holdout.jsonl:{NEXT} (id twin-base)", alone=True)
def a_context_in_both_files(data: Data) -> None:
    copied_to_holdout(data)


@corruption("near-duplicate", f"holdout.jsonl:{NEXT} (id twin-base)", alone=True)
def a_context_that_is_nearly_another(data: Data) -> None:
    copied_to_holdout(data)
    own_context(data)


@corruption("shared-source-family", "holdout.jsonl:1 (id {id})", alone=True)
def a_source_family_in_both_files(data: Data) -> None:
    for record in data.holdout[:2]:
        record["source_family"] = data.train[0]["source_family"]


@corruption("shared-source-id", "holdout.jsonl:1 (id {id})", alone=True)
def a_source_id_in_both_files(data: Data) -> None:
    for record in data.holdout[:2]:
        record["provenance"]["source_id"] = data.train[0]["provenance"]["source_id"]


# balance


@corruption("position-favoured", "holdout.jsonl", alone=True)
def references_first(data: Data) -> None:
    for records in (data.holdout,):
        for base, other in zip(records[::2], records[1::2], strict=True):
            if decision(base)["type"] == "choice":
                targets = [base["reference"]["target"], other["reference"]["target"]]
                for record in (base, other):
                    criteria = decision(record)["criteria"]
                    rest = [key for key in criteria if key not in targets]
                    decision(record)["criteria"] = {k: criteria[k] for k in [*targets, *rest]}


# shortcuts


@corruption("ablated-shortcut", "train.jsonl, holdout.jsonl", alone=True)
def the_context_names_the_answers(data: Data) -> None:
    for records in (data.train, data.holdout):
        for base, other in zip(records[::2], records[1::2], strict=True):
            if decision(base)["type"] == "choice":
                told = " or ".join(sorted({r["reference"]["target"] for r in (base, other)}))
                for record in (base, other):
                    add_text(record, f"Last time it was {told}.")


# lengths


@corruption("prompt-too-long", "holdout.jsonl:1 (id {id})", alone=True)
def a_long_context(data: Data) -> None:
    more = " ".join(f"Line {n} of the log says nothing of note." for n in range(400))
    for record in data.holdout[:2]:
        add_text(record, more)


def expected_place(corruption: Corruption, data: Data) -> str:
    """Fills in the id that stands at the line, in the file, after spoiling."""
    if "{" not in corruption.place:
        return corruption.place
    name = corruption.place.partition(":")[0]
    records = data.train if name == "train.jsonl" else data.holdout
    line = int(corruption.place.partition(":")[2].split()[0])
    return corruption.place.format(id=records[line - 1]["id"])


@pytest.fixture(scope="module")
def tokenizer() -> NamedTokenizer:
    from pact_eval.scoring.contracts import load_tokenizer

    return NamedTokenizer("model", load_tokenizer(MODEL))


def _statistical(spoilt: Corruption) -> bool:
    return CODES[spoilt.code].check in ("balance", "shortcuts")


@pytest.mark.parametrize(
    "spoilt",
    [
        pytest.param(spoilt, id=spoilt.code, marks=[pytest.mark.slow] * _statistical(spoilt))
        for spoilt in CORRUPTIONS
    ],
)
def test_every_corruption_is_found_where_it_is(
    spoilt: Corruption, tmp_path: Path, tokenizer: NamedTokenizer
) -> None:
    data = healthy(None if _statistical(spoilt) else FAMILIES)
    spoilt.spoil(data)
    folder = data.write(tmp_path / "data")
    spoilt.spoil_files(folder)
    only = None if spoilt.alone else (CODES[spoilt.code].check,)
    audit = audited(folder, only, tokenizer=tokenizer, keep=500)
    of_code = [finding for finding in findings(audit) if finding.code == spoilt.code]
    assert expected_place(spoilt, data) in {str(finding.place) for finding in of_code}
    assert failed(audit.checks, CODES[spoilt.code].severity)
    assert bool(audit.tampering) == (spoilt.code in ("hash-mismatch", "fingerprint-mismatch"))
    if spoilt.alone:
        worse = {finding.check for finding in findings(audit) if finding.severity != "note"}
        assert worse == {CODES[spoilt.code].check}


def test_every_check_has_a_corruption_that_it_alone_rejects() -> None:
    assert {CODES[spoilt.code].check for spoilt in CORRUPTIONS if spoilt.alone} == set(DATA_CHECKS)


def test_the_healthy_dataset_has_no_finding(tmp_path: Path, tokenizer: NamedTokenizer) -> None:
    audit = audited(healthy().write(tmp_path), tokenizer=tokenizer)
    assert counts(audit) == {}
    assert [check.check for check in audit.checks] == list(DATA_CHECKS)
    assert not any(check.skipped for check in audit.checks)
