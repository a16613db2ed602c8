"""`python -m pact_eval.experiments`: choose among the trainings of a tuned arm."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pact_eval._json import Json
from pact_eval.errors import PactError
from pact_eval.experiments.candidates import is_plain
from pact_eval.experiments.selection import copy_chosen, select, write_selection
from pact_eval.training.recipes import parse_words


def main(words: Sequence[str] | None = None) -> int:
    """Choose, print the choice, and return the exit code.

    Args:
        words: the arguments; those of the process if None.
    """
    parser = _parser()
    options = parser.parse_args(words)
    try:
        settings = _settings(options.set)
    except ValueError as error:
        parser.error(f"--set: {error}")
    try:
        selection = select(options.runs, arm=options.arm, settings=settings)
        if options.adapters is not None:
            copy_chosen(selection, options.runs, options.adapters)
        write_selection(selection, options.out)
    except PactError as error:
        sys.stderr.write(f"Error: {error}\n")
        return error.exit_code
    sys.stdout.write(f"{selection}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pact_eval.experiments",
        description="Choose among the trainings of a tuned arm: the lowest mean NLL over the seeds "
        "on the selection split. Of equal ones, the first is chosen.",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="run of a candidate at a seed (score --k 1 --role selection --arm ARM.CANDIDATE)",
    )
    parser.add_argument("--arm", required=True, help="the arm")
    parser.add_argument(
        "--set",
        action="append",
        required=True,
        metavar="KEY=VALUE",
        help='a setting, such as "rank=[8, 16]"; a list has the values that were tried',
    )
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="the choice: JSON")
    parser.add_argument(
        "--adapters", type=Path, metavar="DIR", help="copy the chosen adapters to DIR/ARM-SEED"
    )
    return parser


def _settings(words: Sequence[str]) -> dict[str, Json]:
    """Return the settings of `--set`.

    Raises:
        ValueError: a word is not KEY=VALUE, or a value is not plain or a list of plain ones.

    Examples:
        >>> _settings(["rank=[8, 16]"])
        {'rank': [8, 16]}
    """
    settings = parse_words(words)
    for key, value in settings.items():
        if not _is_tried(value):
            message = f"expected {key} as text, a number, true/false or a list of them"
            raise ValueError(message)
    return settings


def _is_tried(value: Json) -> bool:
    """Return whether a setting may have a value, or each of a list of values."""
    return all(map(is_plain, value if isinstance(value, list) and value else [value]))


if __name__ == "__main__":
    sys.exit(main())
