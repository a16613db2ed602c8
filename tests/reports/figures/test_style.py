"""Colours that everybody tells apart, the same ones everywhere; names that do no harm."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.colors import to_rgb
from reports.figures.figure_runs import rows, simulated
from run_frames import write_run

from pact_eval.evaluation import RunCollection, collect_runs
from pact_reports.figures import FIGURES
from pact_reports.figures.style import (
    ARM_COLOURS,
    INK,
    MORE_COLOURS,
    MUTED,
    OUTCOME_COLOURS,
    RC,
    RIGHT,
    SMALLEST_POINTS,
    TERM_COLOURS,
    WRONG,
    RunStyles,
    shown,
)

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
    "arms": (*ARM_COLOURS.values(), *MORE_COLOURS),
    "terms": tuple(TERM_COLOURS.values()),
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


def test_the_papers_grey_and_teal_were_too_close_to_keep_both() -> None:
    assert difference("#8D96A0", ARM_COLOURS["pact"], "protanopia") < 10
    assert min(difference(ARM_COLOURS["base"], ARM_COLOURS["pact"], v) for v in VISION) > 24


def test_text_is_seven_points_or_more() -> None:
    sizes = [size for name, size in RC.items() if name.endswith("size") and "tick.m" not in name]
    assert min(size for size in sizes if size != RC["lines.markersize"]) >= SMALLEST_POINTS


def test_an_arm_has_its_colour_whatever_stands_beside_it(tmp_path: Path) -> None:
    folders = [
        write_run(tmp_path / arm, rows(1, families=6), arm=arm, seed=1)
        for arm in ("mine", "ce_only", "yours", "pact_full", "base_model")
    ]
    styles = RunStyles.of(collect_runs(folders)).arms
    backwards = RunStyles.of(collect_runs(folders[:0:-1])).arms
    assert styles["pact_full"].colour == ARM_COLOURS["pact"]
    assert styles["base_model"].colour == ARM_COLOURS["base"]
    assert [styles["mine"].colour, styles["yours"].colour] == list(MORE_COLOURS[:2])
    for arm in ("ce_only", "pact_full", "base_model"):
        assert styles[arm] == backwards[arm]
    assert len({style.marker for style in styles.values()}) == 5


def test_two_names_of_one_arm_get_two_looks(tmp_path: Path) -> None:
    names = ("pact", "pact_full", *(f"x{n}" for n in range(6)))
    folders = [write_run(tmp_path / n, rows(1, families=6), arm=n, seed=1) for n in names]
    looks = RunStyles.of(collect_runs(folders)).arms
    assert len(set(looks.values())) == len(names)


def test_seeds_have_line_styles(collection: RunCollection) -> None:
    styles = RunStyles.of(collection)
    assert styles.seeds == (17, 18)
    assert styles.dash(None) == styles.dash(17) == "-"
    assert styles.dash(18) != "-"


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


def test_every_figure_says_what_it_needs() -> None:
    assert all(spec.title and spec.needs for spec in FIGURES.values())
    assert len(FIGURES) == 13


def test_simulated_runs_hold_the_same_items(tmp_path: Path) -> None:
    assert simulated(tmp_path, arms=("pact",), seeds=(1,), families=3).same_items
