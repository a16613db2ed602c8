"""The golden record: what every command says of an experiment, before and after a change.

    python tests/golden_record.py record GOLDEN --experiment runs/replicate --demo runs
    python tests/golden_record.py compare GOLDEN --experiment runs/replicate --demo runs

`make replicate` makes the experiment, and `make demo` the runs of the demo; without either, the
record has the other commands only. Commands run in a copy, in this process. A record is one JSON
file per command: its exit code, its `--json` output, and the tables that it wrote.

`compare` prints every number that differs by more than 1e-12 (relative to 1 or its size) and every
other difference, and ends with 1 if a number, a status or an exit code differs, or a command is
missing. Words, that is texts with a space, are counted and shown with `--words`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner

import pact_fixtures
from pact_cli.audit.main import main as pact_audit
from pact_cli.main import main as pact_eval

TOLERANCE: Final = 1e-12
FIXTURES: Final = Path(pact_fixtures.__file__).parent
TIMES: Final = (
    "command_line",
    "created",
    "finished",
    "seconds",
    "started",
    "registered_at",
    "version",
)
"""Parts of names of fields that differ between two runs of one command."""

_ENVIRONMENT: Final = {"COLUMNS": "120", "PACT_EVAL_CONFIG": ""}


@dataclass(frozen=True)
class Case:
    """One command.

    Attributes:
        name: name of its file in the record.
        words: the program and its arguments, without `--json`.
        folder: folder of files that it writes and that belong to the record, or None.
    """

    name: str
    words: tuple[str, ...]
    folder: str | None = None


def of_the_data() -> Iterator[Case]:
    """The audits of the bundled data and adapters."""
    yield Case("data", ("pact-audit", "data", str(FIXTURES / "data")))
    for adapter in ("pact", "nimble_recipe"):
        folder = str(FIXTURES / "adapters" / adapter)
        words = ("pact-audit", "adapter", folder, "--data", str(FIXTURES / "data"))
        yield Case(f"adapter-{adapter}", words)
    files = [str(FIXTURES / "data" / name) for name in ("train.jsonl", "holdout.jsonl")]
    yield Case("diff", ("pact-audit", "diff", *files))
    yield Case("split", ("pact-audit", "split", files[0], "--out", "golden-split"), "golden-split")
    yield Case("ablate", ("pact-audit", "ablate", files[1], "--out", "golden-ablated.jsonl"))


def of_runs(runs: list[str]) -> Iterator[Case]:
    """What is said of every single run, and of all pairs with the last."""
    data = ("--data", str(FIXTURES / "data/holdout.jsonl"))
    for run in runs:
        name = run.replace("/", "-")
        yield Case(f"report-{name}", ("pact-eval", "report", run, "--full"))
        yield Case(f"report-{name}-single", ("pact-eval", "report", run, "--decoding", "single"))
        yield Case(f"sweep-{name}", ("pact-eval", "report", "--views", run, "--full"))
        yield Case(f"verify-{name}", ("pact-eval", "verify", run))
    for run in runs[:2]:
        name = run.replace("/", "-")
        by_group = ("report", run, *data, "--by", "domain", "--unit", "source_family")
        yield Case(f"report-{name}-data", ("pact-eval", *by_group, "--target-error", "0.1"))
        for more in (("--target-error", "0.1"), ("--target-escalation", "0.3")):
            words = ("pact-eval", "thresholds", run, *more, "--gates-by", "kind")
            yield Case(f"thresholds-{name}{more[0]}", words)
        for gate in ("margin", "entropy", "disagreement"):
            words = ("pact-eval", "thresholds", run, "--target-error", "0.1", "--gate", gate)
            yield Case(f"thresholds-{name}-{gate}", words)
        for label, more in (("", ("--coverage", "0.9")), ("-ties", ("--ties-seed", "3"))):
            yield Case(f"sets-{name}{label}", ("pact-eval", "thresholds", run, "--sets", *more))
    for run in runs[:-1]:
        pair = (run, runs[-1])
        name = "-".join(pair).replace("/", "-")
        yield Case(f"compare-{name}", ("pact-eval", "compare", *pair))
        yield Case(f"mcnemar-{name}", ("pact-eval", "compare", *pair, "--mcnemar"))
        yield Case(f"gate-{name}", ("pact-eval", "compare", *pair, "--gate", "--margin", "0.02"))
        margin = ("--margin", "0.03", "--decoding", "ensemble")
        yield Case(f"margin-{name}", ("pact-eval", "compare", *pair, *margin))


def of_the_experiment() -> Iterator[Case]:
    """What is said of arms, of hypotheses and of calibrations, and the tables and figures."""
    runs = tuple(sorted(str(run) for run in Path("runs").iterdir()))
    ablated = tuple(sorted(str(run) for run in Path("ablated").iterdir()))
    arms = tuple(f"{arm}=runs/{arm}-*" for arm in ("pact", "nimble_recipe", "ce_only"))
    yield Case("runs", ("pact-eval", "runs", "."))
    yield Case("data-experiment", ("pact-audit", "data", "data"))
    for decoding in ("single", "ensemble"):
        words = ("pact-eval", "compare", "--arms", *arms, "--decoding", decoding)
        yield Case(f"arms-{decoding}", (*words, "--full"))
    calibrated = ("compare", "--arms", *arms, "--decoding", "single", "--calibrated")
    yield Case("arms-calibrated", ("pact-eval", *calibrated, "--full"))
    yield Case("scorecard", ("pact-eval", "scorecard", "hypotheses.toml", *runs, *ablated))
    for mode in ("auto", "scalar", "per-kind", "contextual"):
        for run in ("pact-17", "nimble_recipe-17"):
            out = ("--mode", mode, "--out", f"golden-{mode}-{run}.json")
            words = ("calibrate", f"calibration/{run}", "--force", "--holdout", f"runs/{run}", *out)
            yield Case(f"calibrate-{mode}-{run}", ("pact-eval", *words))
    method = ("--method", "pact")
    criteria = ("--criteria", "hypotheses.toml")
    tables = ("paper", *runs, *ablated, "--tables", "all")
    yield Case(
        "tables",
        ("pact-eval", *tables, *method, *criteria, "--out", "golden-tables"),
        "golden-tables",
    )
    figures = ("paper", "--figures", "all", *runs, *method, "--out", "golden-figures")
    yield Case("figures", ("pact-eval", *figures))
    seeds = [run for run in runs if run.endswith("-17")]
    report = ("report", *seeds, "--data", "data", *method, "--target-error", "0.1")
    yield Case("report-seed-17", ("pact-eval", *report, "--full"))


def outcome(case: Case) -> dict[str, Any]:
    """Run a command, and return what the record keeps of it."""
    program, *arguments = case.words
    main = {"pact-eval": pact_eval, "pact-audit": pact_audit}[program]
    result = CliRunner().invoke(main, [*arguments, "--json"], env=_ENVIRONMENT, prog_name=program)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    try:
        output = json.loads(result.stdout)
    except ValueError:
        output = result.output
    files = {}
    if case.folder is not None:
        for path in sorted(Path(case.folder).iterdir()):
            files[path.name] = path.read_text("utf-8").splitlines()
    return {"command": list(case.words), "exit": result.exit_code, "json": output, "files": files}


def differences(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """Describe every place where two JSON values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            if any(part in key for part in TIMES):
                continue
            if key not in before or key not in after:
                yield f"{place}/{key}: only {'before' if key in before else 'after'}"
            else:
                yield from differences(before[key], after[key], f"{place}/{key}")
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{place}: {len(before)} entries before, {len(after)} after"
        for number, (old, new) in enumerate(zip(before, after, strict=False)):
            yield from differences(old, new, f"{place}/{number}")
    elif not _equal(before, after):
        yield f"{place}: {before!r} before, {after!r} after"


def _equal(before: Any, after: Any) -> bool:
    numbers = (int, float)
    if isinstance(before, bool) or isinstance(after, bool) or not isinstance(before, numbers):
        return bool(before == after)
    if not isinstance(after, numbers):
        return False
    return math.isclose(before, after, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def is_of_words(difference: str) -> bool:
    """Return whether a difference is one of two texts with spaces."""
    _, _, values = difference.partition(": ")
    return values.startswith(("'", '"')) and " " in values.partition(" before, ")[0]


@contextlib.contextmanager
def copied(experiment: Path | None, demo: Path | None) -> Iterator[list[Case]]:
    """Copy the runs into a temporary folder, which becomes the working folder."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if experiment is not None:
            shutil.copytree(experiment, folder, dirs_exist_ok=True)
        if demo is not None:
            for run in sorted(demo.glob("demo-*")):
                if run.is_dir():
                    shutil.copytree(run, folder / run.name)
        with contextlib.chdir(folder):
            cases = [*of_the_data()]
            if demo is not None:
                cases += of_runs(sorted(run.name for run in Path().glob("demo-*")))
            if experiment is not None:
                names = ("pact-17", "nimble_recipe-17", "no_emd-17", "base")
                cases += of_runs([f"runs/{name}" for name in names])
                cases += of_the_experiment()
            yield cases


def main() -> None:
    """Record the outputs of all commands, or compare them with a record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("golden", type=Path)
    parser.add_argument("--experiment", type=Path)
    parser.add_argument("--demo", type=Path)
    parser.add_argument("--words", action="store_true", help="show differences of words too")
    options = parser.parse_args()
    golden, wrong = options.golden.resolve(), 0
    with copied(options.experiment, options.demo) as cases:
        for case in cases:
            path = golden / f"{case.name}.json"
            text = json.dumps(outcome(case), indent=1, ensure_ascii=False) + "\n"
            if options.action == "record":
                golden.mkdir(parents=True, exist_ok=True)
                path.write_text(text, "utf-8")
            else:
                before = json.loads(path.read_text("utf-8")) if path.exists() else {}
                lines = list(differences(before, json.loads(text)))
                numbers = [line for line in lines if not is_of_words(line)]
                wrong += len(numbers)
                _show(case.name, lines, numbers, words=options.words)
    sys.stdout.write(f"{len(cases)} commands, {wrong} differences of numbers\n")
    sys.exit(wrong > 0)


def _show(name: str, lines: list[str], numbers: list[str], *, words: bool) -> None:
    if lines:
        texts = len(lines) - len(numbers)
        sys.stdout.write(f"{name}: {len(numbers)} of numbers, {texts} of words\n")
    for line in (lines if words else numbers)[:20]:
        sys.stdout.write(f"  {line[:300]}\n")


if __name__ == "__main__":
    main()
