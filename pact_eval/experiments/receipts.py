"""Receipts of steps: hashes of inputs and outputs, the command and versions.

    receipts/STEP.json
    {"format": "pact-step-1", "step": ..., "stage": ..., "command": [...],
     "inputs": {path: SHA-256 or null}, "versions": {distribution or Hub name: version or commit},
     "outputs": {path: SHA-256 or null},          null until the step is done
     "judged_with": {path: SHA-256 or null}}      of a training: what its adapter was checked with

A receipt is written when a step starts and again when it is done. It has no times: those are in
`events.jsonl`. A step whose receipt agrees with the plan and the files is not repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Final, Literal

from pact_eval._files import read_json, sha256_of_file, write_atomically
from pact_eval._json import Json, dumps_indented
from pact_eval.errors import InputError
from pact_eval.experiments.events import NOT_FINISHED
from pact_eval.experiments.steps import Step

FORMAT: Final = "pact-step-1"

Hashes = Mapping[str, str | None]
"""SHA-256 of files by their path; None for a file that does not exist."""

_NAMES_SHOWN: Final = 3


@dataclass(frozen=True)
class Receipt:
    """Inputs and outputs of a step.

    Attributes:
        step: name of the step.
        stage: its stage.
        command: its command.
        inputs: hashes of its inputs.
        versions: versions of the distributions, and commits of the repositories of the Hub, that
            its results depend on.
        outputs: hashes of its outputs; None until it is done.
        judged_with: hashes of the files that its adapter was checked with, at the end of a
            training.
    """

    step: str
    stage: str
    command: tuple[str, ...]
    inputs: Hashes
    versions: Mapping[str, str | None]
    outputs: Hashes | None = None
    judged_with: Hashes = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """Return the content of the file."""
        value: dict[str, Json] = {
            "format": FORMAT,
            "step": self.step,
            "stage": self.stage,
            "command": [*self.command],
            "inputs": {**self.inputs},
            "versions": {**self.versions},
            "outputs": None if self.outputs is None else {**self.outputs},
        }
        return value | ({"judged_with": {**self.judged_with}} if self.judged_with else {})


@dataclass(frozen=True)
class Standing:
    """Whether a step must run, and why.

    Attributes:
        state: done; missing: it has not run, or not to its end; changed: what it is made from.
        why: the reason, in a few words; "" if it is done.
    """

    state: Literal["done", "missing", "changed"]
    why: str = ""


@dataclass
class Receipts:
    """The receipts of an experiment.

    Attributes:
        start: folder of the plan, where the paths of steps start.
        folder: folder of the receipts.
    """

    start: Path
    folder: Path
    _hashed: dict[tuple[Path, int, int], str] = field(default_factory=dict)

    def path(self, step: Step) -> Path:
        """Return the file of a receipt."""
        return self.folder / f"{step.name}.json"

    def expected(self, step: Step) -> Receipt:
        """Return the receipt that a step would start with now."""
        versions = {name: installed_version(name) for name in step.versions}
        written = self.written(step) if step.commits else None
        recorded = {} if written is None else written.versions
        versions |= {name: now or recorded.get(name) for name, now in step.commits.items()}
        return Receipt(step.name, step.stage, step.words, self.hashes(step.inputs), versions)

    def written(self, step: Step) -> Receipt | None:
        """Return the receipt on disk; None without one, or if it is not one."""
        path = self.path(step)
        try:
            value = read_json(path) if path.exists() else None
            return None if value is None else _receipt(value)
        except (InputError, ValueError):
            return None

    def standing(self, step: Step, expected: Receipt) -> Standing:
        """Compare a step with its receipt.

        Args:
            step: the step.
            expected: what it would start with now.
        """
        written = self.written(step)
        if written is None:
            return Standing("missing", "new")
        changes = [*_changes(written, expected)]
        if changes:
            return Standing("changed", _few(changes))
        if written.outputs is None:
            return Standing("missing", NOT_FINISHED)
        # Files that somebody added to a folder are not compared: they are not the step's.
        now = self.hashes(map(Path, written.outputs))
        differing = [path for path, sha in written.outputs.items() if sha != now.get(path)]
        if not differing:
            return Standing("done")
        gone = [path for path in differing if now.get(path) is None]
        what = f"{gone[0]} is missing" if gone else f"{differing[0]} is not what the step wrote"
        # A file that somebody edited is made again from the start.
        return Standing("missing" if gone else "changed", what)

    def start_step(self, expected: Receipt) -> None:
        """Write down what a step starts with."""
        self._write(expected)

    def finish_step(self, step: Step, started: Receipt) -> None:
        """Write down what a step has made.

        Args:
            step: the step; its outputs exist.
            started: the receipt that it started with.
        """
        outputs = self.hashes((*step.outputs, *step.extras))
        made = {path: sha256 for path, sha256 in outputs.items() if sha256 is not None}
        self._write(replace(started, outputs=made, judged_with=self.hashes(step.judged_with)))

    def is_judged(self, step: Step) -> bool:
        """Return whether the adapter of a training was checked with the files as they are now."""
        written = self.written(step)
        return written is not None and written.judged_with == self.hashes(step.judged_with)

    def judge_again(self, step: Step) -> None:
        """Record that the adapter of a training was checked with the files as they are now."""
        written = self.written(step)
        if written is not None:
            self._write(replace(written, judged_with=self.hashes(step.judged_with)))

    def hashes(self, paths: Iterable[Path]) -> dict[str, str | None]:
        """Return the hash of each file, and of each file in each folder."""
        hashes: dict[str, str | None] = {}
        for path in paths:
            place = self.start / path
            if place.is_dir():
                inside = sorted(file for file in place.rglob("*") if file.is_file())
                hashes |= {
                    (path / file.relative_to(place)).as_posix(): self._hash(file) for file in inside
                }
            else:
                hashes[path.as_posix()] = self._hash(place) if place.is_file() else None
        return hashes

    def _hash(self, file: Path) -> str:
        """Return the hash of a file; a file that did not change since is not read again."""
        status = file.stat()
        key = (file, status.st_size, status.st_mtime_ns)
        if key not in self._hashed:
            self._hashed[key] = sha256_of_file(file)
        return self._hashed[key]

    def _write(self, receipt: Receipt) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{receipt.step}.json"
        write_atomically(path, dumps_indented(receipt.to_json()))


def _changes(written: Receipt, expected: Receipt) -> Iterable[str]:
    """Yield what differs between two receipts, apart from the outputs."""
    if written.command != expected.command:
        yield "its command changed"
    for path in {**written.inputs, **expected.inputs}:
        if written.inputs.get(path) != expected.inputs.get(path):
            yield f"{path} changed"
    for name in {**written.versions, **expected.versions}:
        before, now = written.versions.get(name), expected.versions.get(name)
        if before != now:
            yield f"{name} {before} is now {now}"


def _few(reasons: list[str]) -> str:
    more = len(reasons) - _NAMES_SHOWN
    return "; ".join(reasons[:_NAMES_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def installed_version(name: str) -> str | None:
    """Return the version of a distribution; None if it is not installed.

    Args:
        name: its name, such as torch.

    Examples:
        >>> installed_version("no-such-distribution")
    """
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _receipt(value: Json) -> Receipt:
    """Read what `to_json` wrote.

    Raises:
        ValueError: it is something else.
    """
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        message = f"expected a receipt, format {FORMAT}"
        raise ValueError(message)
    command, outputs = value.get("command"), value.get("outputs")
    if not isinstance(command, list):
        message = "expected command as a list"
        raise ValueError(message)
    return Receipt(
        step=str(value.get("step")),
        stage=str(value.get("stage")),
        command=tuple(map(str, command)),
        inputs=_texts(value.get("inputs")),
        versions=_texts(value.get("versions")),
        outputs=None if outputs is None else _texts(outputs),
        judged_with=_texts(value.get("judged_with", {})),
    )


def _texts(value: Json) -> dict[str, str | None]:
    if not isinstance(value, dict):
        message = "expected an object of texts"
        raise ValueError(message)
    return {key: None if text is None else str(text) for key, text in value.items()}
