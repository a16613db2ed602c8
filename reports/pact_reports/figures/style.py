"""How figures look: one colour an arm, one line style a seed, sizes for a printed column.

The colours of the paper's arms are the paper's, with one exception: its grey of the base model and
its teal of PACT are 8 apart (CIE 1976 colour difference) under protanopia and 11 under
deuteranopia, hardly two colours; the base model is a darker grey here, 24 or more from every other.
The paper's blue of the margin term and violet of the ordinal term are as close; the ordinal term is
a dark red here. Any two colours of `ARM_COLOURS` and `MORE_COLOURS`, or of `TERM_COLOURS`, differ
by 17 or more under normal vision, protanopia, deuteranopia and tritanopia (Machado et al. 2009).
Markers and line styles say the same thing once more, for prints without colour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pact_eval.evaluation import CollectedRun, RunCollection
from pact_reports.plain_text import one_line

__all__ = [
    "ARM_COLOURS",
    "COLUMN_INCHES",
    "INK",
    "MORE_COLOURS",
    "MUTED",
    "OUTCOME_COLOURS",
    "RC",
    "RIGHT",
    "SMALLEST_POINTS",
    "TERM_COLOURS",
    "WRONG",
    "ArmStyle",
    "RunStyles",
    "shown",
]

COLUMN_INCHES: Final = 3.5
"""Width of a figure: a column of a two-column page."""

SMALLEST_POINTS: Final = 7.0
"""No text is smaller."""

ARM_COLOURS: Final[Mapping[str, str]] = {
    "pact": "#0E8C86",
    "nimble_recipe": "#EE8A2E",
    "ce_only": "#8C62C4",
    "base": "#3A3F45",
}
"""The paper's arms, by our names of them."""

MORE_COLOURS: Final = ("#733C06", "#45BDE6", "#420BE6", "#BF9469", "#570673")
"""Other arms take these in the order of the runs; a sixth starts again with other markers."""

TERM_COLOURS: Final[Mapping[str, str]] = {
    "ce": "#4A4F55",
    "cf": "#3B7DD8",
    "pc": "#EE8A2E",
    "nr": "#E0584C",
    "emd": "#730606",
}
"""The loss terms."""

RIGHT: Final = "#0072B2"
WRONG: Final = "#D55E00"
OUTCOME_COLOURS: Final = ("#0E6C9E", "#9CCBE8", "#F3C98B", "#B5432B")
"""Pairs with both right, only the base, only the counterfactual, neither."""

INK: Final = "#222222"
MUTED: Final = "#6b6b6b"

_ALIASES: Final[Mapping[str, str]] = {
    "pact": "pact",
    "pact_full": "pact",
    "nimble_recipe": "nimble_recipe",
    "nimble": "nimble_recipe",
    "ce_only": "ce_only",
    "base": "base",
    "base_model": "base",
}
_MARKERS: Final[Mapping[str, str]] = {
    "pact": "o",
    "nimble_recipe": "s",
    "ce_only": "^",
    "base": "D",
}
_MORE_MARKERS: Final = ("v", "P", "X", "<", ">", "h", "p")
_DASHES: Final[tuple[Any, ...]] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (4, 1.2, 1, 1.2)))
_LONGEST_NAME: Final = 28

RC: Final[Mapping[str, Any]] = {
    "axes.axisbelow": True,
    "axes.formatter.use_mathtext": False,
    "axes.formatter.useoffset": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.labelsize": 7.5,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 7.5,
    "axes.titlepad": 4.0,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "Helvetica"],
    "font.size": 7.0,
    "legend.borderaxespad": 0.3,
    "legend.fontsize": 7.0,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "legend.handletextpad": 0.5,
    "legend.labelspacing": 0.25,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.5,
    "pdf.fonttype": 42,
    "savefig.dpi": 300,
    "savefig.facecolor": "white",
    "svg.fonttype": "none",
    "svg.hashsalt": "pact-eval",
    "text.color": INK,
    "text.parse_math": False,
    "text.usetex": False,
    "xtick.color": INK,
    "xtick.labelsize": 7.0,
    "xtick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "xtick.minor.size": 1.5,
    "xtick.minor.width": 0.4,
    "ytick.color": INK,
    "ytick.labelsize": 7.0,
    "ytick.major.size": 2.5,
    "ytick.major.width": 0.6,
    "ytick.minor.size": 1.5,
    "ytick.minor.width": 0.4,
}
"""Settings of matplotlib, over its defaults: whatever the user has set does not reach a figure.

Text in SVG stays text: files are small, words can be searched, read aloud and restyled by the page
around them, and a reader without DejaVu Sans gets a narrower font, so that nothing overlaps. PDF
embeds the font.
"""


@dataclass(frozen=True)
class ArmStyle:
    """How an arm looks in every figure."""

    colour: str
    marker: str


@dataclass(frozen=True)
class RunStyles:
    """The looks of a collection's arms and seeds.

    Attributes:
        arms: by name.
        seeds: all seeds, ascending.
    """

    arms: Mapping[str, ArmStyle]
    seeds: tuple[int, ...]

    @classmethod
    def of(cls, collection: RunCollection) -> RunStyles:
        """Assign looks: the paper's arms have theirs, others theirs by the order of the runs."""
        arms: dict[str, ArmStyle] = {}
        taken: set[str] = set()
        others = 0
        for name in collection.arms:
            known = _ALIASES.get(name.lower().replace("-", "_").replace(" ", "_"))
            if known is not None and known not in taken:
                taken.add(known)
                arms[name] = ArmStyle(ARM_COLOURS[known], _MARKERS[known])
                continue
            colour = MORE_COLOURS[others % len(MORE_COLOURS)]
            arms[name] = ArmStyle(colour, _MORE_MARKERS[others % len(_MORE_MARKERS)])
            others += 1
        seeds = {run.seed for run in collection.runs if run.seed is not None}
        return cls(arms, tuple(sorted(seeds)))

    def dash(self, seed: int | None) -> Any:
        """Return the line style of a seed; a solid line where there is none."""
        return "-" if seed is None else _DASHES[self.seeds.index(seed) % len(_DASHES)]

    def colour_of(self, run: CollectedRun) -> str:
        """Return the colour of a run's arm."""
        return self.arms[run.arm].colour


def shown(text: str, longest: int = _LONGEST_NAME) -> str:
    r"""Make text from data fit for a figure: one line, printable, not longer than `longest`.

    Matplotlib leaves names that begin with an underscore out of legends; they get a blank before.

    Example:
        >>> shown("pact\x1b[31m"), shown("_hidden"), shown("x" * 40, 9)
        ('pact\\x1b[31m', ' _hidden', 'xxxx…xxxx')
    """
    line = one_line(text)
    if len(line) > longest:
        head = longest // 2
        line = f"{line[:head]}…{line[len(line) - (longest - head - 1) :]}"
    return f" {line}" if line.startswith("_") else line
