"""`python -m pact_eval.training`: train an adapter with a built-in recipe, or continue."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, TextIO, get_args

from pact_eval.errors import PactError
from pact_eval.scoring.request import DEVICES, DtypeName
from pact_eval.training.recipe import RecipeTraining, TrainingInterruptedError, train_recipe
from pact_eval.training.recipe_data import RecipeFiles
from pact_eval.training.recipes import RECIPES, SETTINGS, parse_words

_SIGNALS: Final = 128


def main(words: Sequence[str] | None = None) -> int:
    """Train with a recipe, and return the exit code.

    Args:
        words: the arguments; those of the process if None.
    """
    parser = _parser()
    options = parser.parse_args(words)
    try:
        settings = parse_words(options.set)
    except ValueError as error:
        parser.error(f"--set: {error}")
    files = RecipeFiles(options.train, options.selection, options.calibration, options.unpaired)
    training = RecipeTraining(
        options.recipe,
        settings,
        options.arm or options.recipe,
        options.seed,
        options.base_model,
        files,
        options.dtype,
        options.device,
    )
    try:
        train_recipe(training, options.out, log=partial(_say, sys.stdout))
    except TrainingInterruptedError as error:
        _say(sys.stderr, f"{options.out}: {error}")
        return _SIGNALS + error.signal
    except PactError as error:
        _say(sys.stderr, f"Error: {error}")
        return error.exit_code
    _say(sys.stdout, f"Next: pact-eval score {shlex.quote(str(options.out))} --data FILE --k 4")
    return 0


def _say(stream: TextIO, line: str) -> None:
    stream.write(f"{line}\n")
    stream.flush()


def _parser() -> argparse.ArgumentParser:
    keys = "\n".join(
        f"  {key:<26} {setting.meaning} ({setting.expected})" for key, setting in SETTINGS.items()
    )
    parser = argparse.ArgumentParser(
        prog="python -m pact_eval.training",
        description="Train an adapter with a built-in recipe. The same command continues a "
        "training that was killed.",
        epilog=f"settings of --set:\n{keys}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("recipe", choices=RECIPES)
    parser.add_argument(
        "--base-model", required=True, help="folder, hub id, or hub id with @revision"
    )
    parser.add_argument("--train", type=Path, required=True, help="pairs to train on")
    parser.add_argument(
        "--selection", type=Path, required=True, help="pairs that choose the checkpoint"
    )
    parser.add_argument("--out", type=Path, required=True, help="adapter folder")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting, such as epochs=1; the keys are below",
    )
    parser.add_argument("--seed", type=int, default=17, help="default: 17")
    parser.add_argument("--arm", help="name for reports; default: the recipe")
    parser.add_argument("--unpaired", type=Path, help="records without a pair to train on too")
    parser.add_argument("--calibration", type=Path, help="calibration split, for the record")
    parser.add_argument(
        "--dtype",
        choices=get_args(DtypeName),
        default="auto",
        help="precision of the base's weights; default: auto",
    )
    parser.add_argument("--device", choices=DEVICES, default="auto", help="default: auto")
    return parser


if __name__ == "__main__":
    sys.exit(main())
