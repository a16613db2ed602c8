"""The golden record: in `make test` one command of each kind, in `make test-all` every case."""

from __future__ import annotations

import copy
import io
import os
from typing import Any

import pytest
from matplotlib.figure import Figure

from golden.cases import every_case
from golden.compare import differences, equal, shown
from golden.record import INPUTS, kept_figures, outcomes, surfaces
from golden.store import RECORD, compared, recorded

pytestmark = pytest.mark.skipif(os.name == "nt", reason="paths and line ends are those of POSIX")
CASES = {case.name: case for case in every_case()}
FAST = "--resamples 300"
SERVER = "--server ADDRESS --model served-1 --wire systemone"
GATE = "compare demo-nimble_recipe demo-pact --gate --margin 0.02"
OF_EACH_KIND = (
    ("shapes", f"report two --full {FAST}", "json"),
    ("shapes", f"report twelve --full {FAST}", "80"),
    ("dates", f"compare january march {FAST}", "60"),
    ("import-rows", "import rows.jsonl --out jsonl", "json"),
    ("shapes", "calibrate calibration --holdout twelve", "80"),
    ("shapes", "thresholds two --sets", "80"),
    ("server", f"decide {SERVER} --context Hello --schema schema.json", "80"),
    ("arms", "register hypotheses.toml", "80"),
    ("published", "scorecard paper_hypotheses.toml run_metrics.csv --full", "json"),
    ("spoiled-runs", "verify good rows facts unsealed cut json not-a-run", "160"),
    ("spoiled-runs", f"report . {FAST}", "60"),
    ("refusals", "nonsense", "80"),
    ("help", "report --help", "80"),
    ("labelled", "audit convert good/questions/questions.jsonl out-0/questions.jsonl", "json"),
    ("audit-faults", "audit data old.jsonl", "80"),
    ("audit-faults", "audit manifest unlisted", "80"),
    ("audit-faults", "audit diff old.jsonl new.jsonl", "60"),
    ("audit-faults", "audit data unlisted", "json"),
    ("audit-adapter", "audit adapter faulty --format sarif", "80"),
    ("published", f"paper run_metrics.csv --tables main --out main {FAST}", "json"),
    ("audit-adapter", "audit adapter adapters/nimble_recipe --format junit", "80"),
    ("demo-compare", f"{GATE} --format github {FAST}", "80"),
    ("audit-data", "audit split data/train.jsonl --out split", "80"),
    ("audit-data", "audit ablate data/holdout.jsonl --out ablated.jsonl", "80"),
    ("plans", "experiment experiment/plan.toml --dry-run", "80"),
    ("server", f"score {SERVER} --data data.jsonl --k 3 --no-probe --out served", "json"),
    ("server", f"score {SERVER} --probe", "json"),
    ("shapes-page", f"report unanswered --html page.html {FAST}", "json"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "command", "surface"), OF_EACH_KIND, ids=[command for _, command, _ in OF_EACH_KIND]
)
def test_one_command_of_each_kind(name: str, command: str, surface: str) -> None:
    before = recorded(name)[command]
    before = {key: before[key] for key in (surface, "files", "figures") if key in before}
    after = outcomes(CASES[name], [command], surface)
    assert "\n".join(shown([*differences(name, {command: before}, after)])) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_case(name: str) -> None:
    found, _ = compared(CASES[name])
    assert "\n".join(shown(found)) == ""


def test_every_case_is_recorded_and_the_record_is_small() -> None:
    assert {path.name for path in RECORD.iterdir()} == {f"{name}.json.xz" for name in CASES}
    assert all(len({*case.commands}) == len(case.commands) for case in CASES.values())
    assert sum(path.stat().st_size for path in (*RECORD.iterdir(), *INPUTS.iterdir())) < 6_000_000


def test_a_command_is_recorded_as_json_and_at_three_widths() -> None:
    assert surfaces("report run --full") == ["json", "60", "80", "160"]
    assert surfaces("register hypotheses.toml") == ["60", "80", "160"]


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        (0.1, 0.1 + 1e-14, True),
        (0.1, 0.1 + 1e-11, False),
        (1e6, 1e6 * (1 + 1e-13), True),
        (float("nan"), float("nan"), True),
        (float("inf"), 5.0, False),
        (1, True, False),
        (1, 1.0, False),
        ("0.1234567890123456,a", "0.1234567890123457,a", True),
        ("0.1234567890123,a", "0.1234567890223,a", False),
        ("12.3%", "12.4%", False),
        ("12345678901234", "12345678901235", False),
    ],
)
def test_numbers_are_equal_within_the_tolerance(old: Any, new: Any, same: bool) -> None:
    assert equal(old, new) == same


@pytest.mark.parametrize(
    ("value", "places"),
    [
        (0.1 + 1e-15, []),
        (0.1, ["files/fit.json/sha256", "json/stdout/fit"]),
        (0.1 + 1e-9, ["files/fit.json/value", "files/fit.json/sha256", "json/stdout/fit"]),
    ],
)
def test_a_hash_may_change_with_the_last_digit_of_what_it_is_of(
    value: float, places: list[str]
) -> None:
    def record(value: float, sha256: str) -> dict[str, Any]:
        files = {"fit.json": {"value": value, "sha256": sha256}}
        return {"calibrate": {"json": {"stdout": {"fit": sha256}}, "files": files}}

    found = differences("case", record(0.1, "a" * 64), record(value, "b" * 64))
    assert sorted(f"{one.surface}{one.place}" for one in found) == sorted(places)


def drawn(*, bar: float = 0.25, area: float = 9.0, inches: float = 4.0) -> list[Any]:
    """Return the record of a figure with bars in an inset, and points."""
    figure = Figure(figsize=(inches, 3.0))
    axes = figure.subplots(subplot_kw={"xticks": [], "yticks": []})
    axes.scatter([1.0, 2.0], [3.0, 4.0], sizes=[area])
    inset = axes.inset_axes((0.0, 1.03, 1.0, 0.16), xticks=[], yticks=[])
    inset.bar([1.0, 2.0], [0.5, bar])
    with kept_figures() as figures:
        figure.savefig(io.BytesIO(), format="svg")
    return figures


def test_planted_differences_are_named() -> None:
    """One number, one word, one byte of a run, one exit code; of a figure a bar, areas, width."""
    stdout = {"metrics": {"ece": 0.031, "items": 3}, "runs": [{"a": 1, "b": 2}]}
    old: dict[str, Any] = {
        "report run": {
            "json": {"exit": 0, "stdout": stdout},
            "60": {"exit": 0, "stdout": ["The data is sound.", "ECE 3.1%"]},
            "80": {"exit": 0, "stdout": [], "stderr": []},
            "files": {"run/rows.parquet": {"sha256": "ab", "rows": {"logits": [[1.0, 2.0]]}}},
            "figures": drawn(),
        }
    }
    new = copy.deepcopy(old)
    command = new["report run"]
    command["json"]["stdout"] = {
        "metrics": {"ece": 0.032, "items": 3.0},
        "runs": [{"b": 2, "a": 1}],
    }
    command["60"]["stdout"][0] = "The data is unsound."
    command["80"]["exit"] = 3
    command["files"]["run/rows.parquet"]["sha256"] = "ac"
    command["figures"] = drawn(bar=0.375, area=16.0, inches=5.0)
    assert [*shown([*differences("case", old, new)])] == [
        "0.031 -> 0.032",
        "    case: report run: json/stdout/metrics/ece",
        "3 -> 3.0",
        "    case: report run: json/stdout/metrics/items",
        "'a b' -> 'b a'",
        "    case: report run: json/stdout/runs/0: order of keys",
        "'sound.' -> 'unsound.'",
        "    case: report run: 60/stdout/0",
        "0 -> 3",
        "    case: report run: 80/exit",
        "'ab' -> 'ac'",
        "    case: report run: files/run/rows.parquet/sha256",
        "4.0 -> 5.0",
        "    case: report run: figures/0/inches/0",
        "9.0 -> 16.0",
        "    case: report run: figures/0/axes/0/artists/0/sizes/0",
        "0.25 -> 0.375",
        "    case: report run: figures/0/axes/1/artists/1/height",
        "9 differences in 1 commands of 1 cases",
    ]
