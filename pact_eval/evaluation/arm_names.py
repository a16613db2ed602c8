"""Display names of arms, for outputs that people read.

Everything else keeps the key of an arm, which is what runs record: results, file names, JSON, CSV,
and the command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pact_eval.errors import InputError
from pact_eval.plain_text import one_line

if TYPE_CHECKING:  # they import this module
    from pact_eval.evaluation.experiment import Experiment

_SEED: Final = re.compile(r"(?P<arm>.*)(?P<seed>, seed -?\d+)", re.DOTALL)
"""The label of a run with a seed."""

_QUANTISED: Final = re.compile(r"(?P<arm>.*)(?P<method> \(\w+\))", re.DOTALL)
"""The key of an arm of quantised runs, as `Provenance.named` makes it."""


@dataclass(frozen=True)
class ArmNames:
    """Display names of arms in outputs.

    Attributes:
        names: by arm, its display name; any other arm is called by its key.

    Example:
        >>> names = ArmNames({"pact": "PACT (ours)"})
        >>> names.arm("pact"), names.run("pact, seed 17"), names.arm("ce_only")
        ('PACT (ours)', 'PACT (ours), seed 17', 'ce_only')
    """

    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, arms: Iterable[str], display_names: Mapping[str, str]) -> ArmNames:
        """Return the names of the arms that an output shows.

        Args:
            arms: the arms.
            display_names: by key. The exact key comes first; then case, dashes and blanks do not
                matter, as for colours. An arm of quantised runs has the name of its recipe, and its
                quantisation.

        Raises:
            InputError: two of the arms would have the same display name.

        Example:
            >>> ArmNames.of(["ce_only", "base"], {"CE-only": "CE"}).names
            {'ce_only': 'CE'}
            >>> ArmNames.of(["pact", "pact (nf4)"], {"pact": "PACT"}).arm("pact (nf4)")
            'PACT (nf4)'
        """
        arm_keys = list(dict.fromkeys(arms))
        alike = {plain(key): name for key, name in display_names.items() if key not in arm_keys}
        names = {arm: display_names.get(arm, alike.get(plain(arm))) for arm in arm_keys}
        for arm in arm_keys:
            match = _QUANTISED.fullmatch(arm)
            if match is None or names[arm] is not None:
                continue
            recipe = display_names.get(match["arm"], alike.get(plain(match["arm"])))
            names[arm] = None if recipe is None else recipe + match["method"]
        _refuse_twins({arm: arm if name is None else name for arm, name in names.items()})
        return cls({arm: name for arm, name in names.items() if name is not None})

    def arm(self, key: str) -> str:
        """Return the display name of an arm; without one, its key."""
        return self.names.get(key, key)

    def run(self, label: str) -> str:
        """Return the label of a run, such as "pact, seed 17", with the display name of its arm."""
        match = _SEED.fullmatch(label)
        if match is None or label in self.names:
            return self.arm(label)
        return self.arm(match["arm"]) + match["seed"]


KEYS: Final = ArmNames()
"""Every arm is called by its key."""


def names_in(experiment: Experiment, display_names: Mapping[str, str]) -> ArmNames:
    """Return the names of the arms of an experiment; errors as `ArmNames.of`.

    Args:
        experiment: the runs.
        display_names: by key.
    """
    return ArmNames.of((run.arm for run in experiment.all_runs), display_names)


def plain(key: str) -> str:
    """Return the key of an arm without what does not matter in the keys of settings.

    Example:
        >>> plain("CE-only") == plain("ce only") == "ce_only"
        True
    """
    return key.lower().replace("-", "_").replace(" ", "_")


def read_names(place: str, arms: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Return the display names in a table of arms.

    Args:
        place: the file, for messages.
        arms: by arm, its settings; `name` is the display name.

    Raises:
        InputError: a name is not one line of printable text, or two arms have the same one.

    Example:
        >>> read_names("pact.toml", {"pact": {"name": "PACT"}, "base": {"colour": "#333333"}})
        {'pact': 'PACT'}
    """
    names: dict[str, str] = {}
    for arm, attributes in arms.items():
        name = attributes.get("name")
        if name is None:
            continue
        if not isinstance(name, str) or not name.strip() or one_line(name) != name:
            message = f"{place}: arms.{arm}.name: expected one line of printable text, got {name!r}"
            raise InputError(message)
        names[arm] = name
    _refuse_twins(names, f"{place}: ")
    return names


def _refuse_twins(names: Mapping[str, str], place: str = "") -> None:
    """Refuse two arms that a reader could not distinguish."""
    taken: dict[str, str] = {}
    for arm, name in names.items():
        if name in taken:
            raise InputError(
                f"{place}arms {taken[name]!r} and {arm!r} have the same display name {name!r}; "
                "give each arm a `name` that no other arm has"
            )
        taken[name] = arm
