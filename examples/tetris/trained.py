"""The folder of a training: its arm, its checkpoints, and the games of checkpoints in its log."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pact_eval._files import write_atomically
from tetris.evaluate import Played


def arm_of(folder: Path) -> str:
    """Return the arm of an adapter or a checkpoint: how it was trained, whatever its seed."""
    for name in ("training.json", "schema_config.json"):
        if (folder / name).is_file():
            return str(json.loads((folder / name).read_text("utf-8")).get("arm", folder.name))
    return folder.name


def named(folder: Path, name: str) -> str:
    """Return the name of an adapter or its arm; that of a checkpoint says at which update.

    Examples:
        >>> named(Path("runs/imitation-17/checkpoints/00150"), "imitation")
        'imitation at 150'
        >>> named(Path("runs/imitation-17"), "imitation")
        'imitation'
    """
    return f"{name} at {int(folder.name)}" if _is_checkpoint(folder) else name


def policy_names(folders: Sequence[Path]) -> list[str]:
    """Return the name of the policy of each adapter or checkpoint; paths if two would be equal.

    Examples:
        >>> policy_names([Path("runs/a-17/checkpoints/00150"), Path("runs/a-17")])
        ['a-17 at 150', 'a-17']
        >>> policy_names([Path("old/a-17"), Path("new/a-17")])
        ['old/a-17', 'new/a-17']
    """
    trainings = [folder.parents[1] if _is_checkpoint(folder) else folder for folder in folders]
    names = [
        named(folder, training.name) for folder, training in zip(folders, trainings, strict=True)
    ]
    return names if len({*names}) == len(names) else [folder.as_posix() for folder in folders]


def _is_checkpoint(folder: Path) -> bool:
    return folder.parent.name == "checkpoints"


def checkpoints(folder: Path) -> dict[int, Path]:
    """Return the checkpoints of a training by update, ascending."""
    return {int(path.name): path for path in sorted((folder / "checkpoints").iterdir())}


def last_update(folder: Path) -> int | None:
    """Return the number of updates of a training, or None without a log or with an empty one."""
    log = folder / "log.jsonl"
    lines = log.read_text("utf-8").splitlines() if log.is_file() else []
    return int(json.loads(lines[-1])["step"]) if lines else None


def log_games(folder: Path, played: Mapping[int, Played]) -> None:
    """Write the games of checkpoints into the log of their training.

    Adds `greedy_points`, `greedy_points_best` and `greedy_lines` to the lines of these updates, for
    `pact-eval paper`.

    Args:
        folder: of the training.
        played: by update, the games of its checkpoint.
    """
    path = folder / "log.jsonl"
    lines = []
    for line in path.read_text("utf-8").splitlines():
        facts = json.loads(line)
        games = played.get(facts["step"])
        if games is not None:
            facts |= {
                "greedy_points": float(games.points.mean()),
                "greedy_points_best": float(games.points.max()),
                "greedy_lines": float(games.lines.mean()),
            }
        lines.append(json.dumps(facts) + "\n")
    write_atomically(path, "".join(lines))
