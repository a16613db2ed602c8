"""Looks of arms in figures: one colour and marker per arm, one line style per seed.

Markers and line styles repeat what colours say, for prints without colour. Any two colours of the
neutral palette differ by 17 or more (CIE 1976) under normal vision, protanopia, deuteranopia and
tritanopia (Machado et al. 2009).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from pact_eval._files import read_toml
from pact_eval.errors import InputError
from pact_eval.evaluation.arm_names import KEYS, ArmNames, names_in, plain, read_names
from pact_eval.evaluation.arms.arm_metrics import ArmMetrics
from pact_eval.evaluation.experiment import Experiment
from pact_eval.plain_text import one_line

RIGHT: Final = "#0072B2"
WRONG: Final = "#D55E00"
OUTCOME_COLOURS: Final = ("#0E6C9E", "#9CCBE8", "#F3C98B", "#B5432B")
"""Pairs with both right, only the base, only the counterfactual, neither."""

INK: Final = "#222222"
MUTED: Final = "#6b6b6b"
PAPER: Final = "#ffffff"
"""Of hollow markers and of gaps between bars; a drawing may lie on another colour."""

_COLOUR: Final = re.compile(r"#[0-9A-Fa-f]{6}")
_KNOWN_MARKERS: Final = "o s ^ D v P X < > h p * d H 8"
_DASHES: Final[tuple[Any, ...]] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (4, 1.2, 1, 1.2)))
_LONGEST_NAME: Final = 28


@dataclass(frozen=True)
class ArmStyle:
    """Look of an arm in every figure."""

    colour: str
    marker: str


@dataclass(frozen=True)
class Palette:
    """The colours and markers of figures.

    Attributes:
        colours: of arms in the order of the runs, and of loss terms; repeated if there are more.
        markers: of arms in the order of the runs.
        arms: fixed looks of arms by name; case, dashes and blanks in a name do not matter. If two
            arms of an experiment share one look, the second gets one from the sequence.
        terms: fixed colours of loss terms by name.
        names: display names of arms by key.
    """

    colours: tuple[str, ...]
    markers: tuple[str, ...]
    arms: Mapping[str, ArmStyle] = field(default_factory=dict)
    terms: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def term_colour(self, name: str, number: int) -> str:
        """Return the colour of a loss term, which is the one with this number."""
        return self.terms.get(name, self.colours[number % len(self.colours)])


NEUTRAL: Final = Palette(
    colours=("#0072B2", "#E69F00", "#333333", "#56B4E9", "#D55E00", "#570673", "#BF9469"),
    markers=("o", "s", "^", "D", "v", "P", "X", "<", ">", "h", "p"),
)
"""The default palette: no arm has a fixed look."""


def read_palette(path: Path) -> Palette:
    """Read a palette from a TOML file.

    The file may hold `colours` and `markers` (lists), `[terms]` (a colour per loss term) and
    `[arms]` (`{ colour = "#0E8C86", marker = "o", name = "PACT" }` per arm); what it leaves out is
    that of the neutral palette. Colours are `#RRGGBB`. An arm may have a name alone.

    Raises:
        InputError: the file cannot be read, a key, colour or marker is not known, or two arms have
            the same name.
    """
    value = read_toml(path)
    keys = ("colours", "markers", "terms", "arms")
    unknown = [name for name in value if name not in keys]
    if unknown:
        raise InputError(f"{path}: expected the keys {', '.join(keys)}; found {unknown[0]!r}")
    lists = {"colours": NEUTRAL.colours, "markers": NEUTRAL.markers}
    for place, kind in (("colours", "colour"), ("markers", "marker")):
        texts = _checked(path, place, value.get(place, lists[place]), "list")
        lists[place] = tuple(
            _checked(path, f"{place}[{at}]", text, kind) for at, text in enumerate(texts)
        )
    terms, arms = (_checked(path, name, value.get(name, {}), "table") for name in keys[2:])
    looks = {name: _checked(path, f"arms.{name}", look, "table") for name, look in arms.items()}
    return Palette(
        **lists,
        arms={name: _arm_style(path, name, look) for name, look in looks.items() if _styled(look)},
        terms={
            name: _checked(path, f"terms.{name}", text, "colour") for name, text in terms.items()
        },
        names=read_names(str(path), looks),
    )


def with_arms(palette: Palette, arms: Mapping[str, Mapping[str, str]], path: Path) -> Palette:
    """Return a palette with the looks and names of more arms; those that it has stay.

    Args:
        palette: the palette.
        arms: by arm, its `colour`, `marker` and `name`; without a marker, the next one of the
            palette.
        path: the file that they are from, for messages.

    Raises:
        InputError: a colour or a marker is not known, or two arms have the same name.

    Example:
        >>> with_arms(NEUTRAL, {"pact": {"colour": "#0E8C86"}}, Path("pact.toml")).arms["pact"]
        ArmStyle(colour='#0E8C86', marker='o')
    """
    styles = {}
    for number, (name, look) in enumerate(arms.items()):
        marker = palette.markers[number % len(palette.markers)]
        if _styled(look):
            styles[name] = _arm_style(path, name, {"marker": marker, **look})
    own = {plain(name) for name in palette.names}
    names = {
        name: title for name, title in read_names(str(path), arms).items() if plain(name) not in own
    }
    return replace(palette, arms=styles | dict(palette.arms), names=names | dict(palette.names))


def _styled(value: Mapping[str, object]) -> bool:
    """Return whether settings of an arm are more than its name."""
    return set(value) != {"name"}


def _arm_style(path: Path, name: str, look: Mapping[str, object]) -> ArmStyle:
    """Return the look of an arm, of which nothing may be missing."""
    parts = (field.name for field in fields(ArmStyle))
    return ArmStyle(
        **{part: _checked(path, f"arms.{name}.{part}", look.get(part), part) for part in parts}
    )


_EXPECTED: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "table": ("a table", lambda value: isinstance(value, Mapping)),
    "list": (
        "a list with at least one text",
        lambda value: isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0,
    ),
    "colour": (
        "a colour such as #0072B2",
        lambda value: isinstance(value, str) and _COLOUR.fullmatch(value) is not None,
    ),
    "marker": (
        f"one of the markers {_KNOWN_MARKERS}",
        lambda value: value in _KNOWN_MARKERS.split(),
    ),
}
"""By kind, how a message describes a value of a palette, and whether one is of the kind."""


def _checked(path: Path, place: str, value: Any, kind: str) -> Any:
    """Return a value of a palette that is of its kind."""
    expected, fits = _EXPECTED[kind]
    if fits(value):
        return value
    raise InputError(f"{path}: {place}: expected {expected}, found {value!r}")


@dataclass(frozen=True)
class Looks:
    """The looks of the arms and seeds of an experiment.

    Attributes:
        arms: by name.
        seeds: all seeds, ascending.
        palette: where the looks are from.
        names: display names of arms.
    """

    arms: Mapping[str, ArmStyle]
    seeds: tuple[int, ...]
    palette: Palette
    names: ArmNames = KEYS

    @classmethod
    def of(cls, experiment: Experiment, palette: Palette = NEUTRAL) -> Looks:
        """Assign looks: fixed ones by name, the others by the order of the runs.

        Raises:
            InputError: two arms would have the same display name.
        """
        seeds = {run.seed for run in experiment.runs if run.seed is not None}
        names = names_in(experiment, palette.names)
        return cls.of_arms(experiment.arms, seeds, names, palette)

    @classmethod
    def of_published(cls, metrics: ArmMetrics, palette: Palette = NEUTRAL) -> Looks:
        """Assign looks to the arms of published metrics, as `of` does to those of runs."""
        seeds = {seed for arm in metrics.arms for seed in metrics.table.seeds(arm)}
        swept = (name for folder in metrics.folders for name in folder.sweep)
        arms = [*dict.fromkeys((*metrics.arms, *swept))]
        return cls.of_arms(arms, seeds, ArmNames.of(arms, palette.names), palette)

    @classmethod
    def of_arms(
        cls, names_of_arms: Iterable[str], seeds: Iterable[int], names: ArmNames, palette: Palette
    ) -> Looks:
        """Assign looks to arms, in their order."""
        fixed = {plain(name): style for name, style in palette.arms.items()}
        arms: dict[str, ArmStyle] = {}
        others = 0
        for name in names_of_arms:
            style = fixed.get(plain(name))
            if style is None or style in arms.values():
                colour = palette.colours[others % len(palette.colours)]
                style = ArmStyle(colour, palette.markers[others % len(palette.markers)])
                others += 1
            arms[name] = style
        return cls(arms, tuple(sorted(seeds)), palette, names)

    def dash(self, seed: int | None) -> Any:
        """Return the line style of a seed; a solid line without a seed."""
        return "-" if seed is None else _DASHES[self.seeds.index(seed) % len(_DASHES)]


def shown(text: str, longest: int = _LONGEST_NAME) -> str:
    r"""Shorten text from data for a figure: one printable line, at most `longest` characters.

    Matplotlib leaves names that begin with an underscore out of legends; they get a leading blank.

    Examples:
        >>> shown("pact\x1b[31m"), shown("_hidden"), shown("x" * 40, 9)
        ('pact\\x1b[31m', ' _hidden', 'xxxx…xxxx')
    """
    line = one_line(text)
    if len(line) > longest:
        head = longest // 2
        line = f"{line[:head]}…{line[len(line) - (longest - head - 1) :]}"
    return f" {line}" if line.startswith("_") else line
