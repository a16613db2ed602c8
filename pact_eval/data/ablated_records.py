"""Ablated contexts as records without a reference.

The base record of a pair without its changed focus sentence: by the certificate the focus fact is
unknown there, so nothing in the context distinguishes the two references of the pair. Such a
record keeps everything of the base record but its reference and certificate, and says under
`ablation` which two answers it concerns:

    {"record": id of the base record, "removed": the sentence, "found_by": how it was found,
     "answers": [reference of the base record, reference of the counterfactual]}

with references as canonical indices.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pact_eval._files import atomic_path
from pact_eval._json import Json, dumps
from pact_eval.data.ablation import ablate
from pact_eval.data.certificates import parse_certificate
from pact_eval.data.files import DataFile
from pact_eval.data.index import Located, index_of_records
from pact_eval.errors import InputError, Problem, RecordError
from pact_eval.results import Result

__all__ = ["AblatedFile", "ablated_record", "write_ablated_records"]

_LEFT_OUT = ("reference", "evidence_certificate")


@dataclass(frozen=True, repr=False)
class AblatedFile(Result):
    """Result of writing ablated records.

    Attributes:
        source: the dataset file that they were made of.
        path: the file.
        records: ablated records in it, one a pair.
        families: families of the dataset file.
        problems: why the others could not be made.
    """

    source: Path = field(repr=False)
    path: Path
    records: int
    families: int
    problems: tuple[Problem, ...]


def write_ablated_records(source: Path, out: Path, *, allow_missing: bool = False) -> AblatedFile:
    """Write the ablated context of every pair of a dataset file.

    Args:
        source: dataset file with certificates.
        out: file to write; it appears only when complete.
        allow_missing: write what can be made although some pairs cannot be ablated.

    Returns:
        What was written.

    Raises:
        InputError: the file cannot be read, or the file to write exists.
        RecordError: a line is not a record, or a pair cannot be ablated and `allow_missing` is not
            set; all such pairs together.
    """
    if out.exists():
        message = f"{out}: expected a new file, found one; nothing was written"
        raise InputError(message)
    index = index_of_records([DataFile(str(source), "train", source)])
    problems: list[Problem] = []
    written = families = 0
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(out) as partial:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            for members in index.families():
                families += 1
                try:
                    file.write(dumps(ablated_record(members)) + "\n")
                    written += 1
                except ValueError as error:
                    last = members[-1].record
                    problems.append(Problem(last.line, last.id, str(error)))
        if problems and not (allow_missing and written):
            raise RecordError(str(source), problems)
    return AblatedFile(source, out, written, families, tuple(problems))


def ablated_record(members: list[Located]) -> dict[str, Json]:
    """Make the ablated record of one pair.

    Args:
        members: the records of a family.

    Returns:
        The JSON of a record without reference, with `ablation`.

    Raises:
        ValueError: the family is not a pair, its references do not differ, or the changed focus
            sentence cannot be deleted.
    """
    base, other = _pair(members)
    if base.record.certificate is None:
        message = "expected an evidence certificate, got none"
        raise ValueError(message)
    ablation = ablate(base.record, parse_certificate(base.record.certificate).changed)
    value = {key: item for key, item in base.value.items() if key not in _LEFT_OUT}
    inputs = base.value["input"]
    state: dict[str, Json] = {"state": ablation.state}
    return value | {
        "id": f"{base.record.id}-ablated",
        "input": (inputs if isinstance(inputs, dict) else {}) | state,
        "ablation": {
            "record": base.record.id,
            "removed": ablation.removed,
            "found_by": ablation.found_by,
            "answers": [base.record.reference, other.record.reference],
        },
    }


def _pair(members: list[Located]) -> tuple[Located, Located]:
    by_variant = {member.record.variant: member for member in members}
    if len(members) != 2 or len(by_variant) != 2:
        message = (
            f"family {members[0].record.family}: expected one base and one counterfactual record, "
            f"got {len(members)} records"
        )
        raise ValueError(message)
    base, other = by_variant["base"], by_variant["counterfactual"]
    if base.record.reference == other.record.reference:
        message = f"family {base.record.family}: expected references that differ"
        raise ValueError(message)
    return base, other
