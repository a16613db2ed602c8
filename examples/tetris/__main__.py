"""The command line: `python -m tetris record`, `evaluate`, `train` and `play`."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Literal

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from pact_cli.steps import watched_steps
from pact_eval._files import write_atomically
from pact_eval.data.files import ROLES
from tetris.evaluate import BASELINES, Mean, Played, Policy, mean, mean_over_seeds, play_games
from tetris.letters import ALWAYS_A, AlwaysA, LetterAudit
from tetris.play import Chooser, save_svg, search_choice, watch
from tetris.record import Recording, file_name, record_games

BASE = Path(__file__).parents[2] / "fixtures" / "pact_fixtures" / "model"

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_SOURCE = click.Choice(["bag", "uniform"])


@click.group()
def main() -> None:
    """Play Tetris by typed decisions: record, compare policies, train, and watch."""


@main.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to write.")
@click.option("--moves", default=120, show_default=True, help="Decisions to record.")
@click.option("--candidates", default=8, show_default=True, help="Placements per decision, to 26.")
@click.option("--explore", default=0.2, show_default=True, help="Share of random placements.")
@click.option("--source", type=_SOURCE, default="bag", show_default=True, help="Piece sequence.")
@click.option("--seed", default=17, show_default=True, help="Seed of pieces and exploration.")
@click.option(
    "--splits", is_flag=True, help="Also write as many for each other split, from other games."
)
def record(
    out: Path,
    moves: int,
    candidates: int,
    explore: float,
    source: Literal["bag", "uniform"],
    seed: int,
    splits: bool,
) -> None:
    """Write decisions of the two-ply search as a dataset."""
    recorded = record_games(
        out,
        Recording(moves, candidates, explore, source, seed),
        roles=ROLES if splits else ("eval",),
    )
    for role, done in recorded.items():
        Console().print(
            f"{done.moves:,} decisions from {done.games} games in {out / file_name(role)}; "
            f"{done.pruned:,} of {done.legal:,} legal placements are not shown "
            f"(at most {candidates} per decision)",
            highlight=False,
            soft_wrap=True,
        )


@main.command()
@click.option("--games", default=20, show_default=True, help="Held-out piece sequences.")
@click.option("--cap", default=400, show_default=True, help="Pieces per game; 0: no cap.")
@click.option("--candidates", default=8, show_default=True, help="Placements per decision, to 26.")
@click.option("--source", type=_SOURCE, default="bag", show_default=True, help="Piece sequence.")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice([*BASELINES, ALWAYS_A]),
    help="Policies to play; all by default.",
)
@click.option(
    "--adapter",
    "adapters",
    multiple=True,
    type=_FOLDER,
    help="Adapters to play as well; may be repeated.",
)
@click.option("--base", type=_FOLDER, default=BASE, help="Base model.  [default: the tiny one]")
@click.option("--with-base", is_flag=True, help="Also play the base model without an adapter.")
@click.option(
    "--checkpoints", is_flag=True, help="Play all checkpoints, and write results into their logs."
)
@click.option("--out", type=click.Path(path_type=Path), help="Also write every game as JSON.")
def evaluate(
    games: int,
    cap: int,
    candidates: int,
    source: Literal["bag", "uniform"],
    policies: tuple[str, ...],
    adapters: tuple[Path, ...],
    base: Path,
    with_base: bool,
    checkpoints: bool,
    out: Path | None,
) -> None:
    """Play policies on the same held-out sequences and compare them.

    Adapters that differ in their seed only get a row with the mean over seeds as well.
    """

    def played_by(name: str, policy: Policy) -> Played:
        return play_games(
            policy, games=games, cap=cap or None, most=candidates, source=source, name=name
        )

    played: dict[str, Played] = {}
    arms: dict[str, list[Played]] = {}
    with watched_steps(told=sys.stderr.isatty()):
        if adapters or with_base:
            from tetris.model_policy import ModelPolicy
            from tetris.trained import arm_of, last_update, log_games, named, policy_names
            from tetris.trained import checkpoints as checkpoints_of

            if with_base:
                played["base model"] = played_by("base model", ModelPolicy(base))
            for folder, policy_name in zip(adapters, policy_names(adapters), strict=True):
                games_by_step = {}
                if checkpoints:
                    games_by_step = {
                        step: played_by(f"{policy_name} at {step}", ModelPolicy(base, path))
                        for step, path in checkpoints_of(folder).items()
                    }
                    log_games(folder, games_by_step)
                    played |= {
                        f"{policy_name} at {step}": games for step, games in games_by_step.items()
                    }
                final = games_by_step.get(last_update(folder) or 0)
                if final is None:
                    final = played_by(policy_name, ModelPolicy(base, folder))
                played[policy_name] = final
                arms.setdefault(named(folder, arm_of(folder)), []).append(final)
        always_a = AlwaysA()
        for name in policies or (ALWAYS_A, *BASELINES):
            played[name] = played_by(name, always_a if name == ALWAYS_A else BASELINES[name])
    seeds = {name: runs for name, runs in arms.items() if len(runs) > 1}
    Console().print(_table(played, seeds, games, cap))
    if ALWAYS_A in played:
        Console().print(_letters_line(always_a.audit()), highlight=False)
    if out is not None:
        every = {name: result.as_json() for name, result in played.items()}
        write_atomically(out, json.dumps(every) + "\n")


@main.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Adapter folder.")
@click.option("--imitation", default=0, show_default=True, help="Updates by cross-entropy first.")
@click.option("--updates", default=200, show_default=True, help="Updates by REINFORCE.")
@click.option("--start", type=_FOLDER, help="Adapter or checkpoint to start from.")
@click.option("--candidates", default=8, show_default=True, help="Placements per decision, to 26.")
@click.option(
    "--imitation-learning-rate",
    default=5e-4,
    show_default=True,
    help="Of the A matrices, by cross-entropy.",
)
@click.option(
    "--learning-rate", default=1e-4, show_default=True, help="Of the A matrices, by REINFORCE."
)
@click.option("--seed", default=17, show_default=True, help="Seed of everything random.")
@click.option("--long", is_flag=True, help="1,574 REINFORCE updates, as many as the paper.")
@click.option(
    "--settings",
    "stated",
    metavar="JSON",
    default="{}",
    help='Any of the settings, instead of options: {"imitation": 300, "updates": 0}.',
)
@click.option("--base", type=_FOLDER, default=BASE, help="Base model.  [default: the tiny one]")
def train(
    out: Path,
    imitation: int,
    updates: int,
    start: Path | None,
    candidates: int,
    imitation_learning_rate: float,
    learning_rate: float,
    seed: int,
    long: bool,
    stated: str,
    base: Path,
) -> None:
    """Train an adapter: cross-entropy, then REINFORCE.

    Each of the two begins anew on the adapter of the one before, with its own games and optimiser.
    """
    from tetris.train import Settings
    from tetris.train import train as train_adapter

    options = {
        "imitation": imitation,
        "updates": 1574 if long else updates,
        "candidates": candidates,
        "imitation_learning_rate": imitation_learning_rate,
        "learning_rate": learning_rate,
        "seed": seed,
    }
    try:
        settings = Settings.from_json(stated, options)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    with watched_steps(told=sys.stderr.isatty()):
        train_adapter(base, out, settings, start)


@main.command()
@click.option("--adapter", type=_FOLDER, help="Adapter that plays; without it, the search does.")
@click.option("--base", type=_FOLDER, default=BASE, help="Base model.  [default: the tiny one]")
@click.option("--sequence", default=0, show_default=True, help="Number of the held-out sequence.")
@click.option("--cap", default=400, show_default=True, help="Pieces after which the game stops.")
@click.option("--candidates", default=8, show_default=True, help="Placements per decision, to 26.")
@click.option("--speed", default=2.0, show_default=True, help="Moves per second.")
@click.option("--save", type=click.Path(path_type=Path), help="Write an animated SVG instead.")
def play(
    adapter: Path | None,
    base: Path,
    sequence: int,
    cap: int,
    candidates: int,
    speed: float,
    save: Path | None,
) -> None:
    """Watch a game in the terminal, or save it as an animated SVG."""
    chooser: Chooser = search_choice
    if adapter is not None:
        from tetris.model_policy import ModelPolicy

        chooser = ModelPolicy(base, adapter).probabilities
    if save is None:
        watch(chooser, number=sequence, cap=cap, most=candidates, speed=speed)
    else:
        save_svg(save, chooser, number=sequence, cap=cap, most=candidates, speed=speed)


def _table(
    played: dict[str, Played], seeds: dict[str, list[Played]], games: int, cap: int
) -> Table:
    """Lay out means over games, and points against the last policy on the same sequences."""
    last = list(played)[-1]
    limit = f"{cap:,} pieces" if cap else "no cap"
    table = Table(title=f"{games} games, {limit}; means with 95% intervals over games")
    for heading in ("policy", "pieces", "rows", "points", f"points - {last}", "top picks"):
        table.add_column(heading, justify="left" if heading == "policy" else "right")

    def add(name: str, columns: list[NDArray[np.float64]]) -> None:
        *counts, picks = columns
        difference = "" if name == last else _shown(mean(counts.pop()))
        table.add_row(
            name,
            *(_shown(mean(column)) for column in counts[:3]),
            difference,
            _percent(mean(picks)),
        )

    def of_games(run: Played) -> list[NDArray[np.float64]]:
        paired = run.points - played[last].points
        return [run.placed, run.lines, run.points, paired, run.top_picks]

    for name, result in played.items():
        add(name, of_games(result))
    for name, runs in seeds.items():
        add(f"{name}, mean of {len(runs)} seeds", of_games(mean_over_seeds(runs)))
        by_seed = np.array([[column.mean() for column in of_games(run)] for run in runs])
        add(f"{name}, interval over seeds", list(by_seed.T))
    return table


def _letters_line(audit: LetterAudit) -> str:
    first, *others = (f"{100 * share:.1f}%" for share in audit.top_picks)
    return (
        f"{ALWAYS_A}: flip rate over {audit.k} letter orders {100 * audit.flip_rate:.1f}% of "
        f"{audit.decisions:,} decisions; top picks {first} in the released order, "
        f"{', '.join(others)} in the others"
    )


def _percent(result: Mean) -> str:
    if result.n < 2:
        return f"{100 * result.value:.1f}%"
    return f"{100 * result.value:.1f}% [{100 * result.low:.1f}, {100 * result.high:.1f}]"


def _shown(result: Mean) -> str:
    if result.n < 2:
        return f"{result.value:,.0f}"
    return f"{result.value:,.0f} [{result.low:,.0f}, {result.high:,.0f}]"


if __name__ == "__main__":
    # PEFT and transformers disagree about a name; nothing here uses it.
    warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing")
    main(prog_name="python -m tetris")
