"""The page "Reproduce the paper": its commands as typed, against the numbers that the paper prints.

They run on the published metrics and rows where these are, and in a plain clone on made ones, which
print as the paper's by construction. All other numbers of the folder are facts of the released
files in both (`released_facts.toml`).
"""

from __future__ import annotations

import csv
import re
import shlex
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

import pytest
from click.testing import CliRunner
from published import printed_cells
from released_results import write_result_folder

from pact_cli.main import main
from pact_eval.evaluation.arms.arm_metrics import MetricCell
from pact_eval.evaluation.arms.figure_results import ece_by_kind
from pact_eval.evaluation.arms.published import read_published
from pact_eval.evaluation.arms.released_results import (
    released_curves,
    released_figures,
    released_sweep,
)
from pact_eval.evaluation.registry import ENSEMBLE
from pact_fixtures.paper import NUMBERS

pytestmark = pytest.mark.slow

_REPOSITORY = Path(__file__).resolve().parents[2]
PAGE: Final = (_REPOSITORY / "docs" / "share.md").read_text(encoding="utf-8")
TABLES: Final = tomllib.loads(NUMBERS.read_text(encoding="utf-8"))
SEVERAL_SEEDS: Final = ("nimble_recipe", "ce_only", "pact_full")

Made: TypeAlias = str | float | list[float]
"""What a command printed: a text, or numbers at full precision."""

Verdict = Literal["equal", "equal after rounding", "cannot be made", "differs"]
VERDICTS: Final[tuple[Verdict, ...]] = (
    "equal",
    "equal after rounding",
    "differs",
    "cannot be made",
)


def commands() -> list[list[str]]:
    blocks = re.findall(r"<!-- reproduce -->\n(.*?)<!-- /reproduce -->", PAGE, re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.strip().splitlines()]


@dataclass(frozen=True)
class Outputs:
    """What the commands of the page wrote and printed.

    Attributes:
        home: the folder in which they ran.
        report: what the report of the shipped run printed.
    """

    home: Path
    report: str

    def cells(self, table: str, arm: str, seed: str = "", head: str = "Arm") -> dict[str, str]:
        """Return the cells of a row of a Markdown table by their heads; `head` is that of `arm`."""
        lines = (self.home / f"{table}.md").read_text(encoding="utf-8").splitlines()
        heads, _, *body = [
            [plain(cell) for cell in line.strip("|").split("|")]
            for line in lines
            if line.startswith("|")
        ]
        rows = [dict(zip(heads, cells, strict=True)) for cells in body]
        (row,) = (
            row for row in rows if row.get(head, arm) == arm and row.get("Seed", seed) == seed
        )
        return row

    def rows(self, table: str) -> list[dict[str, str]]:
        """Return the rows of a table as CSV, with numbers at full precision."""
        with (self.home / "paper-tables" / f"{table}.csv").open(encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def numbers(self, table: str, column: str) -> dict[tuple[str, str], float]:
        """Return a column of a table as CSV by arm and seed."""
        return {
            (row["Arm"], row.get("Seed", "")): float(row[column])
            for row in self.rows(table)
            if row[column]
        }

    def pairs(self, kind: str) -> list[str]:
        """Return the outcomes of pairs of a kind as the report prints them."""
        _, _, table = self.report.partition("Pairs: which of the two members")
        line = next(line for line in table.splitlines() if line.startswith(f"| {kind} "))
        return [cell.strip() for cell in line.strip("|").split("|")][1:]


@pytest.fixture(scope="module")
def outputs(experiment_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    """The folder in which all commands of the page have run."""
    home = tmp_path_factory.mktemp("reproduce")
    write_result_folder(experiment_files, home / "paper" / "results")
    (home / "fixtures").symlink_to(_REPOSITORY / "fixtures")
    report = ""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("COLUMNS", "160")
        for program, *words in commands():
            if program == "python":
                subprocess.run([sys.executable, *words], check=True)
                continue
            assert program == "pact-eval"
            result = CliRunner().invoke(main, words, catch_exceptions=False)
            assert result.exit_code == 0, result.output
            report = result.stdout if words[0] == "report" else report
    return Outputs(home, report)


def plain(cell: str) -> str:
    """Return a cell without bold, notes and escapes."""
    return re.sub(r"<sup>.*?</sup>|\*\*|\\", "", cell).strip()


def numbers_of(text: str) -> list[str]:
    """Return the numbers of a text, without separators of thousands and signs above 0."""
    numbers = re.findall(r"[+-]?\d[\d,]*(?:\.\d+)?", text.replace("−", "-"))
    return [number.replace(",", "").removeprefix("+") for number in numbers]


# Where each column is made: the head of a column, in a table with the same arms (and seeds).
COLUMNS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "main": (
        "main",
        {
            "accuracy": "Accuracy ↑",
            "pair_accuracy": "Pair accuracy ↑",
            "nll": "NLL ↓",
            "brier": "Brier ↓",
            "ece": "ECE ↓",
            "ece_after": "ECE after T(x) ↓",
            "aurc": "AURC ↓",
            "score_mae": "Score MAE ↓",
        },
    ),
    "k_views": (
        "views",
        {
            "accuracy": "Accuracy ↑",
            "pair_accuracy": "Pair accuracy ↑",
            "ece": "ECE after T(x) ↓|ECE ↓",
            "tv": "TV after T(x) ↓|TV ↓",
            "flips": "Flips ↓",
            "gain": "Gain",
        },
    ),
    "ablations": (
        "ablations",
        {
            "accuracy": "Accuracy ↑",
            "pair_accuracy": "Pair accuracy ↑",
            "nll": "NLL ↓",
            "ece": "ECE ↓",
            "aurc": "AURC ↓",
            "score_mae": "Score MAE ↓",
            "tv": "TV ↓",
            "flips": "Flips ↓",
        },
    ),
    "kinds": (
        "kinds",
        {
            "choice": "Choice ↑",
            "boolean": "Boolean ↑",
            "score": "Score ↑",
            "score_mae": "Score MAE ↓",
        },
    ),
    "calibration": (
        "calibration",
        {
            "temperature": "T(x)",
            "fit_ece": "Fit ECE before ↓",
            "fit_ece_after": "Fit ECE after ↓",
            "ece": "ECE before ↓",
            "ece_after": "ECE after ↓",
        },
    ),
    "cost": (
        "cost",
        {
            "steps": "Steps",
            "views": "Views/pair",
            "hours": "Hours",
            "peak": "Peak GiB",
            "accuracy": "Accuracy ↑",
        },
    ),
    "selection": (
        "selection",
        {"nll": "Selection NLL ↓", "accuracy": "Selection accuracy ↑"},
    ),
}


def of_column(outputs: Outputs, table: str, row: Mapping[str, str], column: str) -> str:
    """Return a number of a table of ours."""
    made, heads = COLUMNS[table]
    seed = "17" if table == "ablations" else row.get("seed", "")
    cells = outputs.cells(f"paper-tables/{made}", row["arm"], seed)
    texts = [cells[head] for head in heads[column].split("|") if cells[head] != "–"]
    return texts[0] if texts else "–"


def of_pairs(outputs: Outputs, _row: Mapping[str, str], column: str) -> str:
    every, boolean = outputs.pairs("all"), outputs.pairs("boolean")
    both, base, counterfactual, same = every[1], every[2], every[3], every[5]
    return {
        "both_right_percent": both.partition("(")[2],
        "only_base": base.partition("(")[0],
        "only_counterfactual": counterfactual.partition("(")[0],
        "same_answer": same.partition("(")[0],
        "boolean_only_base": boolean[2].partition("(")[0],
    }[column]


def of_errors(outputs: Outputs, _row: Mapping[str, str], column: str) -> Made:
    svg = next((outputs.home / "shipped-figures").glob("confidence*.svg")).read_text()
    medians = {
        name: float(value) / 100
        for name, value in re.findall(r"(right|wrong) \(\d+\): median ([\d.]+)%", svg)
    }
    errors = re.search(r"wrong \((\d+)\)", svg)
    share = re.search(r"errors at 90% or more: ([\d.]+)%", svg)
    assert errors is not None
    assert share is not None
    return {
        "errors": errors[1],
        "confident": float(share[1]) * int(errors[1]) / 100,
        "median_wrong": medians["wrong"],
        "median_right": medians["right"],
    }[column]


def of_view_tv(outputs: Outputs, _row: Mapping[str, str], column: str) -> str:
    text = " ".join(outputs.report.split())
    match = re.search(r"View TV of 324 items.*?: median ([\d.]+)%.*?\((\d+)%\) below 1%", text)
    assert match is not None
    return match[1] if column == "median" else match[2]


def of_slopes(outputs: Outputs, row: Mapping[str, str], column: str) -> Made:
    """The slopes of the shipped run, or the ends of those of all runs with several seeds."""
    title = "slope on log C" if column == "log_choices" else "slope on log(L / 1000)"
    slopes = outputs.numbers("calibration", title)
    if row in printed_cells("shipped_slopes"):
        return slopes["pact_full", "18"]
    ends = min if row == printed_cells("slope_ranges")[0] else max
    return ends(slope for (arm, _), slope in slopes.items() if arm in SEVERAL_SEEDS)


def of_kinds_ece(outputs: Outputs, row: Mapping[str, str], column: str) -> float:
    """What the figure of ECE by kind draws, of which no table has numbers."""
    result = ece_by_kind(read_published([outputs.home / "paper" / "results"]))
    kind, _, after = column.partition("_")
    summary = next(arm for arm in result.kinds[kind][1] if arm.arm == row["arm"])
    chosen = summary.calibrated if after else summary
    assert chosen is not None
    return 100 * chosen.mean


def of_paired(outputs: Outputs, row: Mapping[str, str], column: str) -> str:
    arm = "base_model" if row["arm"] == "base" else row["arm"]
    heads = {
        "pact": "Acc. A ↑",
        "control": "Acc. B ↑",
        "difference": "A - B",
        "only": "Only A/B",
        "p": "McNemar p",
        "interval": "95% items",
    }
    return outputs.cells("paper-tables/mcnemar", arm, row["seed"], "B")[heads[column]]


def of_base_errors(outputs: Outputs, _row: Mapping[str, str], column: str) -> str:
    text = plain((outputs.home / "paper-tables" / "mcnemar.md").read_text(encoding="utf-8"))
    match = re.search(r"base_model: (\d+) of (\d+) errors \((\d+)%\)", text)
    assert match is not None
    return match[("confident", "errors", "percent").index(column) + 1]


def of_base_lead(outputs: Outputs, _row: Mapping[str, str], column: str) -> float:
    leads = [
        float(row["A - B (fraction, single)"])
        for row in outputs.rows("mcnemar")
        if row["B"] == "base_model"
    ]
    return 100 * (min(leads) if column == "low" else max(leads))


def of_view_sweep(outputs: Outputs, row: Mapping[str, str], column: str) -> float:
    """What the figure of the sweep draws, of which no table has numbers."""
    _, tv = released_sweep(read_published([outputs.home / "paper" / "results"])).sweeps
    arms = {arm.arm: [100 * mean.mean for mean in arm.means] for arm in tv.arms}
    shipped, base = arms["pact_full_seed18"], arms["base_model"]
    ratio = [one / other for one, other in zip(base, shipped, strict=True)]
    return {"low": min, "high": max}[column](arms.get(row["name"], ratio))


def of_training_log(outputs: Outputs, row: Mapping[str, str], _column: str) -> Made:
    """What the figure of training draws, of which no table has numbers."""
    (data,) = released_figures(read_published([outputs.home / "paper" / "results"]))
    distances = released_curves(data).distances
    margin, gap = distances["pair_margin"], distances["ablated_gap"]
    m = float(setting(outputs, "loss.cf_margin"))
    if row["name"] == "step_above":
        return str(margin.steps[margin.values > m][0])
    numbers = {
        "first_margin": margin.values[0],
        "margin": m,
        "last_margin": margin.values[-1],
        "smoothed_margin": margin.average[-1],
        "first_gap": gap.values[0],
        "last_gap": gap.values[-1],
    }
    return float(numbers[row["name"]])


def setting(outputs: Outputs, key: str) -> str:
    return outputs.cells("paper-tables/settings", key, head="Setting")["pact_full"]


SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "length": ("data.max_length",),
    "lora": ("model.lora_rank", "model.lora_alpha", "model.lora_dropout"),
    "lora_plus": ("optim.lora_b_multiplier",),
    "batch": ("optim.groups_per_batch", "optim.grad_accum"),
    "clipping": ("optim.max_grad_norm",),
    "weights": ("loss.cf_weight", "loss.pcr_weight", "loss.nr_weight", "loss.ordinal_emd_weight"),
    "buckets": ("optim.length_bucket_groups",),
    "evaluation": ("evaluation.permutation_ensemble", "evaluation.ece_bins"),
}


def of_settings(outputs: Outputs, row: Mapping[str, str], _column: str) -> Made:
    """The settings; fractions that the paper has in percent, and what follows from others."""
    name = row["name"]
    value = {
        key: float(setting(outputs, key))
        for key in (
            *("optim.warmup_frac", "optim.epochs", "optim.weight_decay", "optim.eval_every_frac"),
            *("loss.cf_margin", "loss.nr_margin", "loss.reg_warmup_frac"),
        )
    }
    if name == "optimiser":
        mantissa, exponent = setting(outputs, "optim.learning_rate").split("e")
        return [float(mantissa), 10.0, float(exponent), value["optim.weight_decay"]]
    if name == "schedule":
        return [100 * value["optim.warmup_frac"], value["optim.epochs"]]
    if name == "margins":
        ramp = 100 * value["loss.reg_warmup_frac"]
        return [value["loss.cf_margin"], value["loss.nr_margin"], ramp]
    if name == "selection":
        return 100 * value["optim.eval_every_frac"]
    texts = [setting(outputs, key) for key in SETTINGS[name]]
    if name == "batch":  # rows of pairs have two records
        texts.append(str(2 * int(texts[0]) * int(texts[1])))
    return " ".join(texts)


def of_data_text(outputs: Outputs, row: Mapping[str, str], _column: str) -> str:
    if row["name"] == "longest_prompt":
        text = (outputs.home / "paper-tables" / "splits.md").read_text(encoding="utf-8")
        match = re.search(r"The longest prompt has ([\d,]+) tokens", text)
        assert match is not None
        return match[1]
    return of_training_splits(outputs, {"name": "train.jsonl"}, row["name"])


def of_training_splits(outputs: Outputs, row: Mapping[str, str], column: str) -> str:
    heads = {"families": "Source fam.", "source_families": "Source fam."}
    cells = outputs.cells("paper-tables/splits", row["name"], head="File")
    return cells[heads.get(column, column.capitalize())]


def of_no_cf(outputs: Outputs, _row: Mapping[str, str], column: str) -> float:
    """What the scorecard rounds: it shows the pair accuracy, and its fall beyond accuracy."""
    metrics = read_published([outputs.home / "paper" / "results"])
    ablated, full = (
        metrics.row(MetricCell(column, arm, ENSEMBLE, "all"), 17).value
        for arm in ("no_cf", "pact_full")
    )
    return 100 * (ablated - full)


def of_aurc_after(outputs: Outputs, _row: Mapping[str, str], _column: str) -> float:
    values = outputs.numbers("calibration", "AURC after (fraction, single_calibrated)")
    return 100 * sum(value for (arm, _), value in values.items() if arm == "pact_full") / 3


def of_splits(outputs: Outputs, _row: Mapping[str, str], column: str) -> str:
    heads = {"families": "Source fam.", "boolean": "Boolean"}
    cells = outputs.cells("shipped-tables/splits", "")
    return cells[heads.get(column, column.capitalize())]


def of_claims(outputs: Outputs, row: Mapping[str, str], column: str) -> Made:
    """Differences, changes and counts that the text takes from its tables."""
    return row["name"] if column == "name" else CLAIMS[row["name"]](outputs)


def change(outputs: Outputs, metric: str) -> float:
    means = outputs.numbers("main", metric)
    return 100 * (1 - means["pact_full", ""] / means["ce_only", ""])


def leads(outputs: Outputs, kind: str) -> list[float]:
    """Return the smallest and the largest lead over the recipe at a seed, in points."""
    values = outputs.numbers("kinds", f"{kind} (fraction, single)")
    seeds = ("17", "18", "19")
    ends = [100 * (values["pact_full", s] - values["nimble_recipe", s]) for s in seeds]
    return sorted([min(ends), max(ends)], key=abs)


def without(outputs: Outputs, arm: str) -> list[float]:
    """Return the changes of accuracy and pair accuracy, in points."""
    (row,) = (r for r in outputs.rows("ablations") if (r["Seed"], r["Arm"]) == ("17", arm))
    numbers = (
        row[f"{name} minus the method's (fraction, single)"]
        for name in ("Accuracy", "Pair accuracy")
    )
    return [100 * float(number) for number in numbers]


def same_answer(outputs: Outputs) -> float:
    every = outputs.pairs("all")
    same, both = (int(numbers_of(every[at])[0]) for at in (5, 1))
    return 100 * same / (162 - both)


def lower_ece(outputs: Outputs) -> float:
    before, after = (
        outputs.numbers("calibration", f"ECE {when} (fraction, {name})")
        for when, name in (("before", "single"), ("after", "single_calibrated"))
    )
    return sum(after[run] < before[run] for run in before if run[0] in SEVERAL_SEEDS)


def saved_hours(outputs: Outputs) -> float:
    """Of the printed hours; those at full precision give 44 with the published records."""
    hours = {
        arm: float(numbers_of(outputs.cells("paper-tables/cost", arm)["Hours"])[0])
        for arm in ("pact_full", "no_perm_views")
    }
    return 100 * (1 - hours["no_perm_views"] / hours["pact_full"])


CLAIMS: Final[Mapping[str, Callable[[Outputs], Made]]] = {
    "nll_falls_percent": lambda out: change(out, "NLL mean (nats, single)"),
    "ece_falls_percent": lambda out: change(out, "ECE mean (fraction, single)"),
    "accuracy_gain": lambda out: (
        100
        * (
            (means := out.numbers("main", "Accuracy mean (fraction, single)"))["pact_full", ""]
            - means["ce_only", ""]
        )
    ),
    "score_gain": lambda out: leads(out, "Score"),
    "choice_loss": lambda out: leads(out, "Choice"),
    "boolean_loss": lambda out: leads(out, "Boolean"),
    "runs_with_lower_ece": lower_ece,
    "same_answer_percent": lambda out: out.pairs("all")[5].partition("(")[2],
    "same_choice_percent": lambda out: out.pairs("choice")[5].partition("(")[2],
    "same_imperfect_percent": same_answer,
    "confident_percent": lambda out: 100 * 16 / 58 if of_errors(out, {}, "errors") == "58" else 0.0,
    "no_cf_changes": lambda out: without(out, "no_cf"),
    "no_nr_changes": lambda out: without(out, "no_nr"),
    "hours_saved_percent": saved_hours,
    "rows_times": lambda out: float(out.cells("paper-tables/cost", "pact_full")["Views/pair"]) / 2,
}

MAKERS: Final[Mapping[str, Callable[[Outputs, Mapping[str, str], str], Made]]] = {
    "splits": of_splits,
    "training_splits": of_training_splits,
    "paired": of_paired,
    "base_errors": of_base_errors,
    "base_lead": of_base_lead,
    "view_sweep": of_view_sweep,
    "training_log": of_training_log,
    "data_text": of_data_text,
    "settings": of_settings,
    "shipped_pairs": of_pairs,
    "shipped_errors": of_errors,
    "no_cf_with_k_views": of_no_cf,
    "shipped_slopes": of_slopes,
    "slope_ranges": of_slopes,
    "aurc_after": of_aurc_after,
    "shipped_tv": of_view_tv,
    "kinds_ece": of_kinds_ece,
    "claims": of_claims,
}
LABELS: Final = ("arm", "seed", "name")


def why_unmade(table: str, row: Mapping[str, str], column: str) -> str | None:
    reasons = TABLES[table].get("unmade_columns", {})
    reason: str | None = TABLES[table].get("unmade")
    return reason or reasons.get(column) or reasons.get(f"{row_name(row)} {column}")


def row_name(row: Mapping[str, str]) -> str:
    return row.get("arm") or row.get("name") or ""


def judged(printed: list[str], made: Made) -> Verdict:
    """Compare the numbers of a cell of the paper with what a command made."""
    if isinstance(made, str):
        numbers = numbers_of(made)[: len(printed)]
        if numbers == printed:
            return "equal"
        values = [*map(float, numbers)]
    else:
        values = made if isinstance(made, list) else [made]
    rounded = [
        f"{value:.{len(number.partition('.')[2])}f}"
        for value, number in zip(values, printed, strict=True)
    ]
    return "equal after rounding" if [*map(float, rounded)] == [*map(float, printed)] else "differs"


def judged_numbers(outputs: Outputs) -> Iterator[tuple[Verdict, int, str]]:
    """Yield of every cell of the paper: the verdict, how many numbers it has, and its place."""
    for table in TABLES:
        for row in printed_cells(table):
            for column, cell in row.items():
                numbers = numbers_of(cell)
                if column in LABELS or not numbers:
                    continue
                place = f"{table}: {row_name(row)} {row.get('seed', '')} {column} {cell}"
                if why_unmade(table, row, column):
                    yield "cannot be made", len(numbers), place
                    continue
                make = MAKERS.get(table)
                made = (
                    of_column(outputs, table, row, column)
                    if make is None
                    else make(outputs, row, column)
                )
                yield judged(numbers, made), len(numbers), f"{place}: {made}"


def test_every_number_of_the_paper(outputs: Outputs) -> None:
    counts: Counter[Verdict] = Counter()
    differing = []
    for verdict, numbers, place in judged_numbers(outputs):
        counts[verdict] += numbers
        differing += [place] if verdict == "differs" else []
    stated = [
        f"{table}: {name.replace(' ', '  ')}"
        for table, content in TABLES.items()
        for name in content.get("differing", {})
    ]
    assert [place.rpartition(" ")[0].rpartition(" ")[0] for place in differing] == stated
    sentence = re.search(
        r"(\d+) are equal, (\d+) are equal after rounding, (\d+) differs .*?, and (\d+) cannot",
        PAGE,
    )
    assert sentence is not None, counts
    assert [*map(int, sentence.groups())] == [counts[verdict] for verdict in VERDICTS]


def test_the_verdicts_of_the_paper(outputs: Outputs) -> None:
    with (outputs.home / "paper-tables" / "scorecard.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        verdicts = {row["H"]: row["Verdict"] for row in csv.DictReader(file)}
    assert verdicts == {
        "H1": "INCONCLUSIVE",
        "H2": "SUPPORTED",
        "H3": "PARTLY TESTED",
        "H4": "PARTLY SUPPORTED",
        "H5": "SUPPORTED",
    }
