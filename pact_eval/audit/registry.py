"""The registry of checks: one entry per check, for datasets and for adapters alike.

A check answers one question. Its file holds the entry, the codes of its findings and the function
`run(context) -> CheckResult`. To add one for datasets, write such a
file and list its name in `DATA_CHECK_NAMES` (`_choices.py`); for adapters, list its entry in
`adapter/audit.py`. `--only`, the result, the JSON and the terminal report then have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from pact_eval._choices import Severity
from pact_eval.audit.parts import FamilyLook

if TYPE_CHECKING:
    from pact_eval.audit.findings import CheckResult


@dataclass(frozen=True, slots=True)
class Code:
    """Meaning of the code of a finding.

    Attributes:
        check: the check that it belongs to.
        severity: error, warning or note.
        meaning: one sentence for the documentation.
    """

    check: str
    severity: Severity
    meaning: str


class Context(Protocol):
    """Subject of checks: a dataset, or an adapter folder."""

    def lacks(self, need: str) -> str | None:
        """Say why something that a check needs is not available; None if it is."""

    def skipped(self, check: str, reason: str) -> CheckResult:
        """Return the result of a check that did not run."""


C = TypeVar("C", bound=Context)


@dataclass(frozen=True)
class Check(Generic[C]):
    """One entry of a registry.

    Attributes:
        name: one word, as in `--only NAME`.
        question: what the check answers.
        run: looks at the context and returns what it found.
        codes: severity and meaning of each code that its findings can carry.
        needs: what the context must have; without it the check is skipped, with the reason.
        look: for a context, what makes looks at families; None if the check does not look at
            families. Checks that run together share one pass over the families.
        apart: for a context, what makes the result of `run` in a process of its own, while other
            checks run; it can be pickled. None if the check does not work on one core for long.
        cost: time that it takes for 100,000 records, relative to reading them; for the time left.
    """

    name: str
    question: str
    run: Callable[[C], CheckResult]
    codes: Mapping[str, tuple[Severity, str]]
    needs: tuple[str, ...] = ()
    look: Callable[[C], Callable[[], FamilyLook]] | None = None
    apart: Callable[[C], Callable[[], CheckResult]] | None = None
    cost: float = 1.0

    def result(self, context: C) -> CheckResult:
        """Run the check, or say why it cannot run."""
        reason = self.lacks(context)
        return self.run(context) if reason is None else context.skipped(self.name, reason)

    def lacks(self, context: C) -> str | None:
        """Say why the check cannot run; None if it can."""
        reasons = map(context.lacks, self.needs)
        return next((reason for reason in reasons if reason is not None), None)


_REGISTERED: Final[dict[str, Code]] = {}
_REGISTRIES: Final = {
    "pact_eval.audit.dataset": "DATA_CHECKS",
    "pact_eval.audit.adapter.audit": "ADAPTER_CHECKS",
}


class _Codes(Mapping[str, Code]):
    """The codes of both registries; all checks are loaded when an unknown code is looked up.

    A process that looks at a part of a dataset has loaded one check and no registry.
    """

    def __getitem__(self, code: str) -> Code:
        if code not in _REGISTERED:
            self._load()
        return _REGISTERED[code]

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(_REGISTERED)

    def __len__(self) -> int:
        self._load()
        return len(_REGISTERED)

    def _load(self) -> None:
        for module, name in _REGISTRIES.items():
            getattr(import_module(module), name).load()


CODES: Final[Mapping[str, Code]] = _Codes()
"""Every code of every registered check. A code keeps its name once it is released."""


def codes_of(check: str) -> tuple[str, ...]:
    """Return the codes of a check, in the order of its entry."""
    if not any(code.check == check for code in _REGISTERED.values()):
        len(CODES)  # loads every check
    return tuple(name for name, code in _REGISTERED.items() if code.check == check)


class Registry(Mapping[str, Check[C]]):
    """Checks by name, in the order in which they run.

    Args:
        checks: the first entries.
        homes: by name, the module that has an entry as `CHECK`; it is loaded when first used, so
            an audit with one check does not wait for the others.
    """

    def __init__(self, *checks: Check[C], homes: Mapping[str, str] | None = None) -> None:
        self._homes = {**(homes or {})}
        self._checks: dict[str, Check[C]] = {}
        for check in checks:
            self._add(check)

    def load(self) -> None:
        """Load every check."""
        for name in self._homes:
            self[name]

    def register(self, check: Check[C]) -> None:
        """Add a check at the end.

        Raises:
            ValueError: there is a check of this name, or one of its codes is taken.
        """
        self.load()
        self._add(check)

    def _add(self, check: Check[C]) -> None:
        taken = [code for code in check.codes if code in _REGISTERED]
        if check.name in self._checks or taken:
            message = f"check {check.name}: name or codes are taken {', '.join(taken)}".rstrip()
            raise ValueError(message)
        self._checks[check.name] = check
        for code, (severity, meaning) in check.codes.items():
            _REGISTERED[code] = Code(check.name, severity, meaning)

    def unregister(self, name: str) -> None:
        """Remove a check and its codes.

        Raises:
            KeyError: there is no check of this name.
        """
        codes = self[name].codes
        self._homes.pop(name, None)
        del self._checks[name]
        for code in codes:
            del _REGISTERED[code]

    def __getitem__(self, name: str) -> Check[C]:
        if name in self._homes and name not in self._checks:
            self._add(import_module(self._homes[name]).CHECK)
        return self._checks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._homes, *self._checks)))

    def __len__(self) -> int:
        return len({*self._homes, *self._checks})
