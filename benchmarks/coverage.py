"""Coverage and error rates of inference: every simulation with known truth, one section each.

    python benchmarks/coverage.py [--only ece] [--sets 400] [--write docs/statistics.md]

Each section is one command of a script, which explains its data. The sections of
docs/statistics.md are as this script writes them. All of them take about 40 minutes on one core.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from common import chosen_options, parser, publish

ROOT: Final = Path(__file__).parents[1]
# By section: the script with its options, and the data sets of each row.
SECTIONS: Final[dict[str, tuple[str, int]]] = {
    "errors": ("tests/stats/coverage.py", 1_000),
    "rates": ("benchmarks/coverage_rates.py", 500),
    "ece": ("benchmarks/coverage_calibration.py --part intervals", 400),
    "gaps": ("benchmarks/coverage_gaps.py --part intervals", 400),
    "gap-differences": ("benchmarks/coverage_gaps.py --part differences", 200),
    "ece-differences": ("benchmarks/coverage_calibration.py --part differences", 200),
    "temperatures": ("benchmarks/coverage_calibration.py --part temperatures", 400),
    "marks": ("benchmarks/coverage_arms.py --only compare --resamples 1000", 400),
    "crossed": ("benchmarks/coverage_arms.py --only crossed", 400),
    "means": ("benchmarks/coverage_arms.py --only means", 400),
    "arms": ("benchmarks/coverage_arms.py --only arms --resamples 1000", 60),
    "shortcuts": ("benchmarks/coverage_shortcuts.py", 100),
    "verdicts": ("benchmarks/coverage_verdicts.py --resamples 1000", 300),
}


def section(name: str, sets: int | None) -> str:
    """Return what a script prints, with the command that repeats it."""
    command, usual = SECTIONS[name]
    script, *options = [*command.split(), "--sets", str(sets or usual)]
    done = subprocess.run(  # noqa: S603 -- our own scripts
        [sys.executable, str(ROOT / script), *options],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return f"{done.stdout.strip()}\n\n`python {' '.join((script, *options))}`"


def main() -> None:
    """Run the simulations."""
    arguments = parser(__doc__, blocks=None)
    arguments.add_argument("--sets", type=int, help="data sets of each row")
    arguments.add_argument("--only", choices=SECTIONS, action="append", help="one section")
    chosen = chosen_options(arguments, only=["verdicts"], sets=1)
    for name in chosen.only or SECTIONS:
        publish(f"coverage-{name}", section(name, chosen.sets), chosen.write)


if __name__ == "__main__":
    main()
