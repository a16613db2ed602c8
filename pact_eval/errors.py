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

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
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

_GROUPS_SHOWN = 20
_WORDINGS_SHOWN = 3
_PLACES_SHOWN = 5

# Where an entry is, before what is wrong with it: a place in another file, or a family.
_PLACE = re.compile(r"(?:[^:]*:\d+(?: \(id [^)]*\))?|family [^:]*): ")

# What comes after it differs from row to row: the value, the allowed values, a quotation.
_VALUE = re.compile(r", got |, found | one of |[\"']")


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
        kind: what sort of problem it is; "" if only the message says so.
        remedy: what to do, if the message does not say it; one command that works is best.

    Examples:
        >>> print(Problem(17, "a-1", "expected 2 to 255 answers, got 1"))
        17 (id a-1): expected 2 to 255 answers, got 1
    """

    line: int | None
    record_id: str | None
    message: str
    kind: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        where = "" if self.line is None else str(self.line)
        who = "" if self.record_id is None else f" (id {self.record_id})"
        return f"{where}{who}: {self.message}".strip() if where or who else self.message

    @property
    def wording(self) -> str:
        """The message up to its first value: equal for rows with one mistake.

        Examples:
            >>> Problem(3, None, "level 2: expected a number, got [12]").wording
            'level #: expected a number'
        """
        message = _PLACE.sub("", self.message, count=1)
        return re.sub(r"\d+", "#", _VALUE.split(message, maxsplit=1)[0])

    @property
    def mistake(self) -> tuple[str, str]:
        """Kind and column, which many rows have in common; without a kind, the wording.

        The column is what precedes ":" in the message.

        Examples:
            >>> Problem(3, None, "level: expected a number, got [12]", "values").mistake
            ('values', 'level')
        """
        if not self.kind:
            return "", self.wording
        column, colon, _ = self.wording.partition(":")
        return self.kind, column if colon else ""


class RecordError(InputError):
    """All the problems of one file of records or predictions.

    The message shows each mistake once: its first row, how many more rows have it, and the remedy.
    `problems` has every row.

    Args:
        source: the file's name as the user gave it.
        problems: every problem found.

    Examples:
        >>> print(RecordError("eval.jsonl", [Problem(3, None, "not valid JSON")]))
        eval.jsonl:3: not valid JSON
        >>> print(RecordError("eval.jsonl", [
        ...     Problem(line, None, f"level: expected a number, got {line}", remedy="Write 1 to 5.")
        ...     for line in range(2, 90)]))
        eval.jsonl:2: level: expected a number, got 2
        and 87 more like it (lines 3, 4, 5, 6, 7, ...)
        Write 1 to 5.
    """

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__(source, self.problems)

    def __str__(self) -> str:
        mistakes: dict[tuple[str, str], list[Problem]] = {}
        for problem in self.problems:
            mistakes.setdefault(problem.mistake, []).append(problem)
        groups = [sorted(each, key=lambda problem: problem.line or 0) for each in mistakes.values()]
        shown, rest = groups[:_GROUPS_SHOWN], sum(map(len, groups[_GROUPS_SHOWN:]))
        lines: list[str] = []
        for place, group in enumerate(shown):
            lines += self._rows(group)
            remedy = group[0].remedy
            if remedy and all(other[0].remedy != remedy for other in shown[place + 1 :]):
                lines.append(remedy)
        if rest:
            lines.append(f"{self.source}: and {counted(rest, 'more problem')}")
        return "\n".join(lines)

    def _rows(self, group: Sequence[Problem]) -> list[str]:
        """Return the first row of a mistake, or of each of its wordings, and how many more."""
        first: dict[str, int] = {}
        for number, problem in enumerate(group):
            first.setdefault(problem.wording, number)
        numbers = [*first.values()][:_WORDINGS_SHOWN]
        shown = [group[number] for number in numbers]
        rest = [problem for number, problem in enumerate(group) if number not in numbers]
        if len(rest) == 1:  # a row takes no more space than its number
            shown, rest = [*group], []
        rows = [
            f"{self.source}:{problem}" if problem.line is not None else f"{self.source}: {problem}"
            for problem in shown
        ]
        return [*rows, f"and {len(rest):,} more like it{_places(rest)}"] if rest else rows


def _places(problems: Sequence[Problem]) -> str:
    """Return lines, or else ids, in parentheses: the first few; "" if neither is known."""
    for what, places in (
        ("lines", [problem.line for problem in problems if problem.line is not None]),
        ("ids", [problem.record_id for problem in problems if problem.record_id is not None]),
    ):
        if places:
            more = ", ..." if len(places) > _PLACES_SHOWN else ""
            return f" ({what} {', '.join(map(str, places[:_PLACES_SHOWN]))}{more})"
    return ""


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
        f"{_install_command(extra)}"
    )
    return MissingExtraError(f"{message}, or {otherwise}" if otherwise else message)


def _install_command(extra: str) -> str:
    """Return the command that installs an extra: of a checkout, or of an installed wheel."""
    if Path(__file__).parents[1].joinpath("constraints.txt").is_file():
        return f"pip install --constraint constraints.txt '.[{extra}]'"
    return f"pip install 'pact-eval[{extra}]'"


ONLY_CONFIDENCE: Final = "only the confidence of the answer is known"
NO_PROBABILITIES: Final[Mapping[str, str]] = {
    "answers": "the run has answers and no probabilities",
    "confidences": ONLY_CONFIDENCE,
    "outcomes": ONLY_CONFIDENCE,
    "grades": "the run only says whether each answer is right",
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


_MODEL_MODULES: Final = (
    "torch",
    "transformers",
    "peft",
    "safetensors",
    "jinja2",
    "huggingface_hub",
)


@contextmanager
def model_extra(purpose: str = "this command") -> Iterator[None]:
    """Name the extra `model` if the block cannot import torch or what comes with it.

    Args:
        purpose: what needs it, in the singular.

    Raises:
        MissingExtraError: a library is not installed, or is broken or of another version.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in _MODEL_MODULES:
            raise
        raise missing_extra(purpose, error.name, "model") from error
    except ImportError as error:
        # Installed, but broken or of another version: what it says is the only clue.
        raise MissingExtraError(
            f"{purpose} needs a model, and {error.name or 'a library'} cannot be imported: "
            f"{error}; install the versions that work together: {_install_command('model')}"
        ) from error


@contextmanager
def _extra(module: str, purpose: str, library: str, extra: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise missing_extra(purpose, library, extra) from error


def server_extra() -> AbstractContextManager[None]:
    """Name the extra `server` if the block cannot import httpx2, in a `MissingExtraError`."""
    return _extra("httpx2", "--server", "httpx2", "server")


def ray_extra() -> AbstractContextManager[None]:
    """Name the extra `ray` if the block cannot import Ray, in a `MissingExtraError`."""
    return _extra("ray", "--workers (or --ray)", "Ray", "model,ray")
