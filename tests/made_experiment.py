"""Made files of an experiment, in the published layout, that print as the paper's tables.

Each table of the paper is a mean and a deviation over three seeds, or a value by seed. What the
paper does not print is solved for: the seeds that have this mean and deviation, or counts of right
answers that do. The shipped run (PACT, seed 18) is that of `made_rows`.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Final, TypeAlias

from made_rows import DOMAINS, MadeItem, made_items, made_summary, metrics, write_rows
from published import printed_cells

SEEDS: Final = (17, 18, 19)
ARMS: Final = ("nimble_recipe", "ce_only", "pact_full")
ABLATIONS: Final = ("no_cf", "no_pcr", "no_nr", "no_emd", "no_perm_views")
SHIPPED: Final = ("pact_full", 18)
RUNS: Final = (*((arm, seed) for arm in ARMS for seed in SEEDS), *((arm, 17) for arm in ABLATIONS))
SIZES: Final = {"choice": 146, "noul": 114, "score": 64}
ITEMS, SHIPPED_TOKENS = 324, 600
SHIPPED_LEVEL: Final = 1.09  # with the printed slopes, it gives the printed ECE under T(x)

# (answers, prompt tokens): a calibrator has its smallest and largest temperature at two of them.
EXTREMES: Final = {(2, 419), (2, 576), (3, 790), (4, 514), (4, 777), (6, 640), (6, 714)}
# Chosen, because the paper does not print them: the AURC of the base model, and the change of ECE
# under T(x) of the ablation whose ECE rises.
UNPRINTED_AURC: Final = 0.2107
UNPRINTED_CHANGES: Final = {"no_emd": 0.023}
# Score MAE to one more digit than printed: their difference is 0.052.
UNPRINTED_DIGITS: Final[dict[tuple[str, int | None], float]] = {
    ("pact_full", 17): 0.2293,
    ("no_emd", 17): 0.2816,
}
# A mean to one more digit than printed: it is 25% below that of the control.
UNPRINTED_MEANS: Final = {("pact_full", "ece"): "10.76"}
NEUTRAL: Final = math.log(math.e - 1)  # softplus of it is 1

Values: TypeAlias = dict[str, float]


def write_experiment(folder: Path) -> None:
    """Write every file that the experiment published, with made content."""
    items = made_items()
    write_rows(folder / "shipped_holdout_rows.jsonl", items)
    (folder / "shipped_summary.json").write_text(json.dumps(made_summary(items)))
    _write(folder / "calibrators.csv", _calibrators())
    _write(folder / "run_calibration.csv", _extreme_temperatures())
    _write(folder / "run_metrics.csv", _metric_rows(items))
    _write(folder / "run_domain_accuracy.csv", _domain_rows())


def _write(path: Path, rows: Iterator[Mapping[str, object]]) -> None:
    lines = list(rows)
    columns = dict.fromkeys(name for line in lines for name in line)
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(columns), restval="")
        table.writeheader()
        table.writerows(lines)


# Calibrators: T = softplus(a + b log C + c log(L / 1000)), with a slope that turns from run to run.


def _weights() -> dict[tuple[str, int], tuple[float, float, float]]:
    turns = {run: 2 * math.pi * at / len(RUNS) for at, run in enumerate(RUNS)}
    slopes = {run: (1.0, math.cos(turn), 2 * math.sin(turn)) for run, turn in turns.items()}
    lowest, highest = (
        [float(row[name]) for name in ("log_choices", "log_tokens")]
        for row in printed_cells("slope_ranges")
    )
    slopes["nimble_recipe", 17] = (1.0, lowest[0], highest[1])
    slopes["pact_full", 17] = (1.0, highest[0], lowest[1])
    shipped = printed_cells("shipped_slopes")[0]
    return slopes | {
        SHIPPED: (SHIPPED_LEVEL, float(shipped["log_choices"]), float(shipped["log_tokens"])),
    }


def _temperature(weights: Sequence[float], answers: int, tokens: int) -> float:
    a, b, c = weights
    return math.log1p(math.exp(a + b * math.log(answers) + c * math.log(tokens / 1000)))


def _calibrators() -> Iterator[Mapping[str, object]]:
    for (run, seed), (a, b, c) in _weights().items():
        unused = {"bias_noul": NEUTRAL, "bias_score": NEUTRAL}
        biases = {"bias_choice": a, **unused}
        yield {"run": run, "seed": seed, **biases, "log_choices": b, "log_tokens": c}


def _extreme_temperatures() -> Iterator[Mapping[str, object]]:
    for (run, seed), weights in _weights().items():
        values = [_temperature(weights, *item) for item in EXTREMES]
        ends = {"temperature_min": min(values), "temperature_max": max(values)}
        yield {"run": run, "seed": seed, "mode": "contextual", **ends}


# Values by seed.


def _number(cell: str) -> float:
    return float(cell.split(" ")[0].replace("−", "-"))


def _by_seed(cell: str, seed_values: Mapping[int, float]) -> dict[int, float]:
    """Return values by seed that have the printed mean and deviation, among them `seed_values`.

    Two unknown seeds follow from the sum and the sum of squares, and one from the sum.
    """
    mean, deviation = (float(part) for part in cell.split(" ± "))
    seed_values = seed_values or {17: mean}
    free = [seed for seed in SEEDS if seed not in seed_values]
    middle = (3 * mean - sum(seed_values.values())) / len(free)
    if len(free) == 1:
        return {**seed_values, free[0]: _third(cell, list(seed_values.values()))}
    ((_, value),) = seed_values.items()
    apart = math.sqrt(max(deviation**2 - 0.75 * (value - mean) ** 2, 0.0))
    return {**seed_values, free[0]: middle - apart, free[1]: middle + apart}


def _third(cell: str, others: Sequence[float]) -> float:
    """Return the third value; the mean is within the rounding of the printed one."""
    mean, deviation = cell.split(" ± ")
    digits = len(mean.partition(".")[2])
    for step in (0, 1, -1, 2, -2, 3, -3, 4, -4):
        value: float = 3 * (float(mean) + step / 10 ** (digits + 1)) - sum(others)
        if f"{stdev([*others, value]):.{digits}f}" == deviation:
            return value
    raise AssertionError(f"no third value besides {others} prints as {cell}")


def _shifted(arm: str, name: str, mean: str) -> dict[int, float]:
    """Return the ECE by seed, moved within the rounding towards the printed mean."""
    rows = [row for row in printed_cells("calibration") if row["arm"] == arm]
    values = {int(row["seed"]): float(row[name]) for row in rows}
    shift = _number(UNPRINTED_MEANS.get((arm, name), mean)) - fmean(values.values())
    return {seed: value + min(max(shift, -0.045), 0.045) for seed, value in values.items()}


def _counts(
    cell: str, of: int, seed_counts: Mapping[int, int], more_than: tuple[float, str] | None = None
) -> dict[int, int]:
    """Return the first counts by seed whose percentages have the printed mean and deviation.

    They include `seed_counts`. With `more_than`, their mean is also so many points above another
    mean.
    """
    mean, deviation = (float(part) for part in cell.split(" ± "))
    ends = [math.floor((mean + sign * 1.2 * deviation) * of / 100) for sign in (-1, 1)]
    options = [
        [seed_counts[seed]] if seed in seed_counts else range(ends[0], ends[1] + 2)
        for seed in SEEDS
    ]
    for counts in product(*options):
        rates = [100 * count / of for count in counts]
        if f"{fmean(rates):.1f} ± {stdev(rates):.1f}" == cell and (
            more_than is None or f"{fmean(rates) - more_than[0]:+.1f}" == more_than[1]
        ):
            return dict(zip(SEEDS, counts, strict=True))
    raise AssertionError(f"no counts of {of} print as {cell}")


# The table of metrics.


def _metric_rows(items: Sequence[MadeItem]) -> Iterator[Mapping[str, object]]:
    kinds = {(row["arm"], row["seed"]): row for row in printed_cells("kinds")}
    decodings = _decodings(items)
    for (arm, seed), row in sorted(kinds.items()):
        right = {
            group: round(_number(row[name]) * SIZES[group] / 100)
            for group, name in (("choice", "choice"), ("noul", "boolean"), ("score", "score"))
        }
        run = (arm, None if seed == "–" else int(seed))
        error = {"expected_score_mae": UNPRINTED_DIGITS.get(run, _number(row["score_mae"]))}
        for decoding, values in decodings[run].items():
            for group, size in {"all": ITEMS, **SIZES}.items():
                correct = sum(right.values()) if group == "all" else right[group]
                here: dict[str, object] = {
                    "run": arm,
                    "seed": run[1],
                    "decoding": decoding,
                    "group": group,
                    "count": size,
                    "pairs": size // 2,
                }
                if decoding != "ensemble":
                    here |= {"correct": correct, "accuracy": correct / size}
                    here |= error if group in ("all", "score") else {}
                here |= values if group == "all" else _kind_ece(run, decoding, group, items)
                if run == SHIPPED and decoding != "ensemble":
                    here |= _shipped(items, decoding)[group]
                yield here


def _kind_ece(
    run: tuple[str, int | None], decoding: str, group: str, items: Sequence[MadeItem]
) -> Values:
    """Return the ECE of a kind, if the paper prints its mean; the shipped run has its own."""
    column = group if decoding == "single" else f"{group}_after"
    means = [row for row in printed_cells("kinds_ece") if row["arm"] == run[0] and column in row]
    if decoding == "ensemble" or run == SHIPPED or not means:
        return {}
    mean = float(means[0][column]) / 100
    if run[0] != SHIPPED[0]:
        return {"ece": mean}
    return {"ece": (3 * mean - _shipped(items, decoding)[group]["ece"]) / 2}


def _decodings(items: Sequence[MadeItem]) -> dict[tuple[str, int | None], dict[str, Values]]:
    """Return the values of all items by run and decoding; rates are fractions."""
    runs: dict[tuple[str, int | None], dict[str, Values]] = {("base_model", None): _base()}
    for arm in ARMS:
        runs |= {(arm, seed): values for seed, values in _arm(arm, items).items()}
    full = runs["pact_full", 17]
    for row in printed_cells("ablations"):
        if row["arm"] in ABLATIONS:
            runs[row["arm"], 17] = _ablation(row, full)
    return runs


def _base() -> dict[str, Values]:
    (single,) = (row for row in printed_cells("main") if row["arm"] == "base_model")
    (views,) = (row for row in printed_cells("k_views") if row["arm"] == "base_model")
    return {
        "single": {
            "pair_accuracy": _number(single["pair_accuracy"]) / 100,
            "nll": _number(single["nll"]),
            "brier": _number(single["brier"]),
            "ece": _number(single["ece"]) / 100,
            "aurc": UNPRINTED_AURC,
        },
        "ensemble": {
            "accuracy": round(_number(views["accuracy"]) * ITEMS / 100) / ITEMS,
            "pair_accuracy": _number(views["pair_accuracy"]) / 100,
            "ece": _number(views["ece"]) / 100,
            "permutation_tv": _number(views["tv"]) / 100,
            "permutation_flip_rate": _number(views["flips"]) / 100,
        },
    }


def _arm(arm: str, items: Sequence[MadeItem]) -> dict[int, dict[str, Values]]:
    """Return the values of an arm of three seeds, by seed and decoding."""
    main, views = (
        next(row for row in printed_cells(name) if row["arm"] == arm)
        for name in ("main", "k_views")
    )
    first = next((row for row in printed_cells("ablations") if row["arm"] == arm), {})
    shipped = metrics(items) if arm == SHIPPED[0] else {}

    def seed_values(name: str) -> dict[int, float]:
        seeds = {17: _number(first[name])} if name in first else {}
        scale = 100 if name == "aurc" else 1
        return seeds | ({18: scale * shipped[name]} if name in shipped else {})

    def count(name: str, of: int) -> dict[int, int]:
        return {seed: round(value * of / 100) for seed, value in seed_values(name).items()}

    pairs = count("pair_accuracy", 162)
    if shipped:
        pairs[18] = round(shipped["pair_accuracy"] * 162)
    rates = [_right(row) / ITEMS for row in printed_cells("kinds") if row["arm"] == arm]
    above = (100 * fmean(rates), views["gain"].replace("−", "-"))
    by_seed = {
        "pair_accuracy": _fractions(_counts(main["pair_accuracy"], 162, pairs), 162),
        "nll": _by_seed(main["nll"], seed_values("nll")),
        "brier": _by_seed(main["brier"], seed_values("brier")),
        "aurc": _scaled(_by_seed(main["aurc"], seed_values("aurc"))),
    }
    many = {
        "accuracy": _fractions(_counts(views["accuracy"], ITEMS, {}, above), ITEMS),
        "pair_accuracy": _fractions(_counts(views["pair_accuracy"], 162, {}), 162),
        "ece": _scaled(_by_seed(views["ece"], {})),
        "permutation_tv": _scaled(_by_seed(views["tv"], seed_values("tv"))),
        "permutation_flip_rate": _fractions(
            _counts(views["flips"], ITEMS, count("flips", ITEMS)), ITEMS
        ),
    }
    eces = {name: _shifted(arm, name, main[name]) for name in ("ece", "ece_after")}
    more = (float(printed_cells("aurc_after")[0]["aurc"]) - _number(main["aurc"])) / 100
    return {
        seed: {
            "single": (single := {name: values[seed] for name, values in by_seed.items()})
            | {"ece": eces["ece"][seed] / 100},
            "single_calibrated": {
                "pair_accuracy": single["pair_accuracy"],
                "ece": eces["ece_after"][seed] / 100,
                "aurc": single["aurc"] + (more if shipped else 0.0),
            },
            "ensemble": {name: values[seed] for name, values in many.items()},
        }
        for seed in SEEDS
    }


def _ablation(row: Mapping[str, str], full: Mapping[str, Values]) -> dict[str, Values]:
    """Return the values of a run with one seed; what the paper does not print is left out."""
    pairs = _number(row["pair_accuracy"]) / 100
    ece = _number(row["ece"]) / 100
    single = {"pair_accuracy": pairs, "nll": _number(row["nll"]), "ece": ece}
    single["aurc"] = _number(row["aurc"]) / 100
    views = {
        "permutation_tv": _number(row["tv"]) / 100,
        "permutation_flip_rate": _number(row["flips"]) / 100,
    }
    if row["arm"] == "no_cf":
        leads = printed_cells("no_cf_with_k_views")[0]
        views |= {name: full["ensemble"][name] + float(leads[name]) / 100 for name in leads}
    after = ece + UNPRINTED_CHANGES.get(row["arm"], -0.01)
    calibrated = {"pair_accuracy": pairs, "ece": after}
    return {"single": single, "single_calibrated": calibrated, "ensemble": views}


def _right(row: Mapping[str, str]) -> int:
    kinds = zip(("choice", "boolean", "score"), SIZES.values(), strict=True)
    return sum(round(_number(row[name]) * size / 100) for name, size in kinds)


def _fractions(counts: Mapping[int, int], of: int) -> dict[int, float]:
    return {seed: count / of for seed, count in counts.items()}


def _scaled(percentages: Mapping[int, float]) -> dict[int, float]:
    return {seed: value / 100 for seed, value in percentages.items()}


def _shipped(items: Sequence[MadeItem], decoding: str) -> dict[str, Values]:
    """Return the scores of the shipped run by group, as its rows give them."""
    if decoding == "single_calibrated":
        weights = _weights()[SHIPPED]
        items = [item.at(_temperature(weights, item.answers, SHIPPED_TOKENS)) for item in items]
    names = ("nll", "brier", "ece", "mean_confidence")
    summary = made_summary(items)
    return {group: {name: summary[group][name] for name in names} for group in ("all", *SIZES)}


def _domain_rows() -> Iterator[Mapping[str, object]]:
    """Yield accuracies by domain; the paper shows them in a figure only, so these are arbitrary."""
    for number, (arm, seed) in enumerate((("base_model", ""), *RUNS)):
        for place, domain in enumerate(DOMAINS):
            right = 24 + (7 * number + 5 * place) % 30
            yield {
                "run": arm,
                "seed": seed,
                "decoding": "single",
                "domain": domain,
                "count": 54,
                "accuracy": right / 54,
            }
