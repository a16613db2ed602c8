"""The folder of a training: its arm, its checkpoints, and the games of checkpoints in its log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pact_eval._files import write_atomically
from tetris.evaluate import Played


def arm_of(folder: Path) -> str:
    """Return the arm of an adapter or a checkpoint: how it was trained, whatever its seed."""
    for name in ("training.json", "schema_config.json"):
        if (folder / name).is_file():
            return str(json.loads((folder / name).read_text("utf-8")).get("arm", folder.name))
    return folder.name


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
