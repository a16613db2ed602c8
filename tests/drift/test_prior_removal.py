"""Which of two runs has a letter prior removed: planted priors, on either side."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from commands import runner
from run_frames import edit_run, rows, write_run

from pact_cli.main import main
from pact_eval.prompts.contract import code_orders

run = runner(main)
PRIOR = {2: [0.5, -0.5], 3: [0.6, 0.0, -0.6], 4: [0.4, 0.4, -0.3, -0.5], 5: [0.8, 0, 0, 0, -0.8]}
OF_A_MODEL = {"adapter": {"sha256": "a" * 64, "config_sha256": "c" * 64}}
FAST = ("--resamples", 200)


def rows_of_orders(seed: int, *, families: int = 60, k: int = 4) -> pl.DataFrame:
    """The rows of a run in the orders of scoring; an order has one answer."""
    parts = []
    for item in rows(seed, families=families, k=k).partition_by("id", maintain_order=True):
        orders = code_orders(0, item["id"][0], item["n_choices"][0], k)
        first = {order: view for view, order in reversed([*enumerate(orders)])}
        logits = item["logits"].to_list()
        parts.append(
            item.with_columns(
                code_order=pl.Series([[*order] for order in orders], dtype=pl.List(pl.Int16())),
                logits=pl.Series(
                    [logits[first[order]] for order in orders], dtype=pl.List(pl.Float32())
                ),
            )
        )
    return pl.concat(parts)


def with_prior(frame: pl.DataFrame, sign: float = 1.0) -> pl.DataFrame:
    """The rows with a preference for letters."""
    logits = []
    for row in frame.iter_rows(named=True):
        values = np.array(row["logits"], dtype=float)
        values[row["code_order"]] += sign * np.array(PRIOR[row["n_choices"]])
        logits.append(values.tolist())
    return frame.with_columns(logits=pl.Series(logits, dtype=pl.List(pl.Float32())))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("priors")
    plain = rows_of_orders(2)
    preferring = with_prior(plain)
    first_view = pl.col("view") == 0
    frames = {
        "local": (preferring, {}),
        "local-without": (plain, {}),
        "served": (preferring.filter(first_view), {"server": {"wire": "systemone"}}),
        "served-without": (plain.filter(first_view), {"server": {"wire": "systemone"}}),
        "other": (rows_of_orders(3).filter(first_view), {"server": {"wire": "systemone"}}),
        "local-one-view": (preferring.filter(first_view), {}),
    }
    for name, (frame, settings) in frames.items():
        write_run(home / name, frame)
        edit_run(home / name, source="score", settings=OF_A_MODEL | settings)
    return {name: home / name for name in frames}


def compared(first: Path, second: Path) -> dict[str, object] | None:
    value = json.loads(run("compare", first, second, *FAST, "--json").stdout)
    prior_removal: dict[str, object] | None = value["comparisons"][0].get("prior_removal")
    return prior_removal


@pytest.mark.parametrize(
    ("pair", "side"),
    [
        (("local", "served-without"), "second"),
        (("served-without", "local"), "first"),
        (("local-without", "served"), "first"),
        (("served", "local-without"), "second"),
        (("local-one-view", "served-without"), "cannot tell"),
    ],
)
def test_the_run_without_the_prior_is_named(
    runs: dict[str, Path], pair: tuple[str, str], side: str
) -> None:
    removal = compared(*(runs[name] for name in pair))
    assert removal is not None
    assert removal["removed_from"] == side
    assert removal["tv_left"] < 1e-6 < 0.01 < removal["tv"]  # type: ignore[operator]
    if side == "cannot tell":
        return
    for count, values in removal["log_prior"].items():  # type: ignore[attr-defined]
        assert values == pytest.approx(PRIOR[int(count)], abs=1e-5)


@pytest.mark.parametrize(
    "pair", [("local", "served"), ("local", "other"), ("local", "local-without")]
)
def test_other_differences_are_no_letter_prior(
    runs: dict[str, Path], pair: tuple[str, str]
) -> None:
    assert compared(*(runs[name] for name in pair)) is None


def test_rounding_to_two_decimals_does_not_hide_it(runs: dict[str, Path], tmp_path: Path) -> None:
    rows = pl.read_parquet(runs["served-without"] / "predictions.parquet")
    logits = []
    for values in rows["logits"].to_list():
        p = np.exp(np.array(values) - np.logaddexp.reduce(values)).round(2).clip(0.005)
        logits.append(np.log(p / p.sum()).tolist())
    rounded = rows.with_columns(logits=pl.Series(logits, dtype=pl.List(pl.Float32())))
    write_run(tmp_path / "rounded", rounded)
    settings = OF_A_MODEL | {"server": {"wire": "systemone"}}
    edit_run(tmp_path / "rounded", source="score", settings=settings)
    removal = compared(runs["local"], tmp_path / "rounded")
    assert removal is not None
    assert removal["removed_from"] == "second"
