"""Does inference hold what it promises? Every simulation with known truth, one section each.

    python benchmarks/coverage.py [--sets 400] [--only calibration] [--write docs/statistics.md]

Each section has its own script, `coverage_NAME.py`, which explains its data.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from common import parser, publish

SECTIONS = ("rates", "calibration", "arms", "verdicts")
HERE = Path(__file__).parent


def section(name: str, sets: int) -> str:
    """Return what a script prints, with the command that repeats it."""
    script = HERE / f"coverage_{name}.py"
    done = subprocess.run(  # noqa: S603 -- our own scripts
        [sys.executable, str(script), "--sets", str(sets)],
        capture_output=True,
        text=True,
        check=True,
    )
    return f"{done.stdout.strip()}\n\n`python benchmarks/coverage_{name}.py --sets {sets}`"


def main() -> None:
    """Run the simulations."""
    arguments = parser(__doc__)
    arguments.add_argument("--sets", type=int, default=400, help="data sets of each row")
    arguments.add_argument("--only", choices=SECTIONS, action="append", help="one section")
    chosen = arguments.parse_args()
    for name in chosen.only or SECTIONS:
        publish(f"coverage-{name}", section(name, chosen.sets), chosen.write)


if __name__ == "__main__":
    main()
