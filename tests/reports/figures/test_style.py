"""Colours that everybody tells apart, the same ones everywhere; names that do no harm."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.colors import to_rgb

from pact_eval.errors import InputError
from pact_fixtures.paper import PALETTE
from pact_reports.figures.style import (
    INK,
    MUTED,
    NEUTRAL,
    OUTCOME_COLOURS,
    RIGHT,
    WRONG,
    read_palette,
    shown,
)

PAPER = read_palette(PALETTE)

# Machado, Oliveira and Fernandes, 2009, severity 1: on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = [
    [0.4124564, 0.3575761, 0.1804375],
    [0.2126729, 0.7151522, 0.0721750],
    [0.0193339, 0.1191920, 0.9503041],
]
SETS = {
    "neutral": NEUTRAL.colours,
    "paper": tuple(
        dict.fromkeys((*(style.colour for style in PAPER.arms.values()), *PAPER.colours))
    ),
    "paper terms": tuple(PAPER.terms.values()),
    "outcomes": OUTCOME_COLOURS,
    "answers": (RIGHT, WRONG),
}


def lab(colour: str, vision: str) -> npt.NDArray[np.float64]:
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(VISION[vision]) @ linear, 0, 1)
    xyz = np.array(TO_XYZ) @ seen / [0.95047, 1.0, 1.08883]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(a: str, b: str, vision: str) -> float:
    return float(np.linalg.norm(lab(a, vision) - lab(b, vision)))


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("name", SETS)
def test_colours_stay_apart_for_every_vision(name: str, vision: str) -> None:
    for a, b in combinations(SETS[name], 2):
        assert difference(a, b, vision) >= 17, (a, b)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("colors = []", "found 'colors'"),
        ('colours = ["red"]', r"colours\[0\]: expected a colour such as #0072B2, found 'red'"),
        ("markers = []", "markers: expected a list"),
        ('[arms]\npact = "#112233"', "arms.pact: expected a table"),
        ('[arms]\npact = { colour = "#112233" }', "arms.pact.marker: expected one of"),
        ("= 1", "palette.toml:1: not valid TOML"),
    ],
)
def test_a_wrong_palette_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "palette.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=expected):
        read_palette(path)


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("a\nb", "a\\nb"),
        ("\u202eabc", "\\u202eabc"),
        ("_x", " _x"),
        ("$x^2$", "$x^2$"),
        ("x" * 60, "x" * 14 + "…" + "x" * 13),
    ],
)
def test_names_are_made_safe(name: str, safe: str) -> None:
    assert shown(name) == safe


def test_notes_have_the_contrast_of_wcag_aa() -> None:
    for ink in (INK, MUTED):
        linear = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
            for part in to_rgb(ink)
        ]
        bright = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        assert 1.05 / (bright + 0.05) >= 4.5, ink
