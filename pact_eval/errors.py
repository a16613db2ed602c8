"""Every error that pact-eval raises on purpose, and the exit code that the command line gives it.

    PactError
    ├── InputError (also ValueError)      exit 1: the command could not do its work
    │   ├── RecordError                   a dataset or prediction file; all its problems together
    │   │   └── PlanError                 ... of an experiment: its plan (exit 2)
    │   ├── RequestError                  a question, schema or context that is not a valid request
    │   ├── PromptError                   a prompt that cannot be scored (too long, ...)
    │   ├── AdapterError                  an adapter or base-model folder that cannot be used
    │   │   └── ContractMismatchError     ... because it was trained on another prompt contract
    │   ├── ServerError                   a server that cannot be reached, used or believed
    │   ├── WorkerError                   workers that cannot be started, disagree or fail
    │   ├── ShapeError                    a labelled file fits several shapes or none (exit 2)
    │   ├── SeveralFilesError             a place has several data files (exit 2)
    │   ├── RoleError                     a source family that cannot have the role it is named for
    │   └── RunError                      a run folder that cannot be read or written
    │       └── RunSettingsError          ... because it belongs to other settings
    ├── MissingExtraError (also ImportError)  exit 1: a library of an extra is not installed
    ├── GateError                         exit 3: a gate failed (findings, threshold, contradicted)
    ├── InconclusiveError                 exit 4: a verdict was demanded and the data give none
    └── TamperedError                     exit 5: a hash or a registration does not match

Exit code 2 is also Click's own, for wrong usage.

A message says what was expected, what was found, where, and what to try.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

__all__ = [
    "AdapterError",
    "ContractMismatchError",
    "GateError",
    "InconclusiveError",
    "InputError",
    "MissingExtraError",
    "PactError",
    "Place",
    "PlanError",
    "Problem",
    "PromptError",
    "RecordError",
    "RequestError",
    "RoleError",
    "RunError",
    "RunSettingsError",
    "ServerError",
    "SeveralFilesError",
    "ShapeError",
    "TamperedError",
    "WorkerError",
    "missing_extra",
    "missing_probabilities",
]

_PROBLEMS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Place:
    """Location of a problem or finding.

    Attributes:
        file: the file's name as the user knows it.
        line: 1-based line number, or None if the file as a unit is meant.
        record_id: id of the record, or None if it could not be read.

    Examples:
        >>> print(Place("eval.jsonl", 17, "a-1"), Place("manifest.json"), sep="; ")
        eval.jsonl:17 (id a-1); manifest.json
    """

    file: str
    line: int | None = None
    record_id: str | None = None

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return where if self.record_id is None else f"{where} (id {self.record_id})"


class PactError(Exception):
    """Base of the tree. `exit_code` is what the command line exits with."""

    exit_code: ClassVar[int] = 1


class InputError(PactError, ValueError):
    """Something that was given cannot be used."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a file.

    Attributes:
        line: 1-based line number, or None if the problem concerns the file as a unit.
        record_id: id of the record, where it could be read.
        message: what was expected and what was found.
        kind: what sort of problem it is, in the plural, for counts; "" if there is one sort only.

    Examples:
        >>> print(Problem(17, "a-1", "expected 2 to 255 answers, got 1"))
        17 (id a-1): expected 2 to 255 answers, got 1
    """

    line: int | None
    record_id: str | None
    message: str
    kind: str = ""

    def __str__(self) -> str:
        where = "" if self.line is None else str(self.line)
        who = "" if self.record_id is None else f" (id {self.record_id})"
        return f"{where}{who}: {self.message}".strip() if where or who else self.message


class RecordError(InputError):
    """All the problems of one file of records or predictions.

    Args:
        source: the file's name as the user gave it.
        problems: every problem found; the message shows the first 50, and counts all of them by
            kind if there are more.

    Examples:
        >>> print(RecordError("eval.jsonl", [Problem(3, None, "not valid JSON")]))
        eval.jsonl:3: not valid JSON
    """

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__(source, self.problems)

    def __str__(self) -> str:
        lines = [
            f"{self.source}:{problem}" if problem.line is not None else f"{self.source}: {problem}"
            for problem in self.problems[:_PROBLEMS_SHOWN]
        ]
        rest = len(self.problems) - _PROBLEMS_SHOWN
        if rest > 0:
            lines.append(f"{self.source}: and {rest:,} more problems{self._kinds()}")
        return "\n".join(lines)

    def _kinds(self) -> str:
        """Return how many problems there are of each kind, most first; "" if no kind is known."""
        counts = Counter(problem.kind for problem in self.problems if problem.kind)
        listed = ", ".join(f"{count:,} {kind}" for kind, count in counts.most_common())
        return f" (in all: {listed})" if listed else ""


class PlanError(RecordError):
    """A plan of an experiment cannot be used; the message has every problem.

    The command line exits with 2, because nothing was tried.
    """

    exit_code: ClassVar[int] = 2


class RequestError(InputError):
    """A question, schema or context is not a valid request."""


class PromptError(InputError):
    """A prompt cannot be scored as the contract demands."""


class AdapterError(InputError):
    """An adapter or base-model folder cannot be used."""


class MemoryExhaustedError(AdapterError):
    """Memory ran out with one prompt at a time; another device or process may have more of it."""


class ContractMismatchError(AdapterError):
    """The adapter was trained on another prompt contract than the one it would be scored on."""


class ServerError(InputError):
    """A server cannot be reached, used or believed."""


class WorkerError(InputError):
    """Workers cannot be started, do not agree, or cannot score a window."""


class RoleError(InputError):
    """A source family that is named for a split is unknown, or is named for two roles."""


class ShapeError(InputError):
    """Nothing decides how a labelled file is read: it fits several shapes, or none.

    The message names them, and the option that decides. The command line exits with 2, because the
    usage is what is wrong.
    """

    exit_code: ClassVar[int] = 2


class SeveralFilesError(InputError):
    """Nothing decides which data file of a place is read. The message lists them.

    The command line exits with 2, because the usage is what is wrong.
    """

    exit_code: ClassVar[int] = 2


class RunError(InputError):
    """A run folder cannot be read or written."""


class RunSettingsError(RunError):
    """The run folder belongs to a run with other settings."""


class MissingExtraError(PactError, ImportError):
    """A library of an extra is not installed; `missing_extra` makes the message."""


def missing_extra(purpose: str, library: str, extra: str, otherwise: str = "") -> MissingExtraError:
    """Return the error for a library that is not installed: the one wording for all extras.

    Args:
        purpose: what needs it, in the singular: an option, "this command", "a compressed log".
        library: its name.
        extra: the extra of pyproject.toml that has it; several are separated by commas.
        otherwise: what can be done without it; empty if nothing can.

    Examples:
        >>> print(missing_extra("--server", "httpx2", "server"))
        --server needs httpx2, which is not installed; install the extra: \
pip install --constraint constraints.txt '.[server]'
    """
    message = (
        f"{purpose} needs {library}, which is not installed; install the extra: "
        f"pip install --constraint constraints.txt '.[{extra}]'"
    )
    return MissingExtraError(f"{message}, or {otherwise}" if otherwise else message)


ONLY_CONFIDENCE: Final = "only the confidence of the answer is known"
NO_PROBABILITIES: Final[Mapping[str, str]] = {
    "answers": "the run has answers and no probabilities",
    "confidences": ONLY_CONFIDENCE,
    "outcomes": ONLY_CONFIDENCE,
}
"""Why a number is undefined, by what a run knows of its items: `Known` of `runs/provenance.py`."""


def missing_probabilities(purpose: str, known: str = "answers") -> InputError:
    """Return the error for a run without probabilities: the one wording, with the remedy.

    Args:
        purpose: what needs probabilities, in the singular.
        known: what the run knows of its items.

    Examples:
        >>> print(missing_probabilities("a calibrator"))
        the run has answers and no probabilities, which a calibrator needs; import a log with \
probabilities or logits, or score the model with `pact-eval score`
    """
    remedy = "import a log with probabilities or logits, or score the model with `pact-eval score`"
    reason = NO_PROBABILITIES[known]
    if reason == ONLY_CONFIDENCE:
        return InputError(f"{reason}, and {purpose} needs the probability of every one; {remedy}")
    return InputError(f"{reason}, which {purpose} needs; {remedy}")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the singular for 1.

    Examples:
        >>> counted(1, "item"), counted(1_200, "family")
        ('1 item', '1,200 families')
    """
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("y") else f"{number:,} {noun}s"


def listed(names: Sequence[str], one: str, several: str) -> str:
    """Return a count with the first names and a verb, for messages.

    Examples:
        >>> listed(["a", "b", "c", "d"], "family", "families")
        '4 families (a, b, c, ...) are'
        >>> listed(["a"], "family", "families")
        '1 family (a) is'
    """
    first = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"{len(names):,} {one if len(names) == 1 else several} ({first}) " + (
        "is" if len(names) == 1 else "are"
    )


class GateError(PactError):
    """A gate that the user set has failed."""

    exit_code: ClassVar[int] = 3


class InconclusiveError(PactError):
    """A verdict was demanded and the data do not give one."""

    exit_code: ClassVar[int] = 4


class TamperedError(PactError):
    """A hash or a registration does not match."""

    exit_code: ClassVar[int] = 5
