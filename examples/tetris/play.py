"""Watching a game: in the terminal, with keys, or as an animated SVG."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tetris.decisions import Candidates, candidates, descriptions
from tetris.evaluate import HELD_OUT
from tetris.game import COLUMNS, ROWS, Board, Game, new_game, pieces, placements
from tetris.search import Search, search

Chooser = Callable[[Game, Search, Candidates], NDArray[np.float64]]
"""Returns a probability for every candidate; the largest is played."""

KEYS: Final = "space: pause, then  . step  a-z take over\n+ - : speed   Esc: quit"
ESCAPE: Final = "\x1b"


def search_choice(_game: Game, _result: Search, kept: Candidates) -> NDArray[np.float64]:
    """Put all probability on the best value."""
    chosen: NDArray[np.float64] = np.eye(len(kept.rows))[kept.best]
    return chosen


@dataclass(frozen=True)
class Move:
    """A position with its candidates and their probabilities, and the position that follows."""

    game: Game
    result: Search
    kept: Candidates
    probabilities: NDArray[np.float64]
    seconds: float

    def row(self, pick: int | None = None) -> int:
        """Return the row of the search for a candidate; by default the most probable one."""
        return int(self.kept.rows[self.probabilities.argmax() if pick is None else pick])


def decide(game: Game, chooser: Chooser, most: int) -> Move:
    """Search a position and ask for the probabilities of its candidates."""
    started = time.perf_counter()
    result = search(game)
    kept = candidates(result, most)
    probabilities = chooser(game, result, kept)
    return Move(game, result, kept, probabilities, time.perf_counter() - started)


def screen(move: Move, *, speed: float, paused: bool) -> RenderableType:
    """Lay out the board, the candidates with their probabilities, and the counts."""
    game = move.game
    rows = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for heading in ("", "place", "probability", "after the next piece"):
        rows.add_column(heading, no_wrap=True)
    moves = placements(game.piece)
    chosen = int(move.probabilities.argmax())
    for at, (row, text) in enumerate(
        zip(move.kept.rows.tolist(), descriptions(move.result, move.kept), strict=True)
    ):
        index = int(move.result.move[row])
        share = float(move.probabilities[at])
        bar = "█" * round(5 * share)
        name = f"r{moves.rotation[index]}c{moves.column[index]}"
        style = "bold green" if at == chosen else ""
        rows.add_row(
            *("abcdefghijklmnopqrstuvwxyz"[at], name, f"{bar:5} {share:4.0%}"),
            text.partition("; ")[2].removeprefix("then "),  # what comes first is on the board
            style=style,
        )
    facts = (
        f"piece {game.piece}, next {game.upcoming}\n{game.placed:,} pieces, {game.lines:,} rows, "
        f"level {game.level}, {game.points:,} points\n"
        f"{1 / max(move.seconds, 1e-6):,.0f} decisions/s; {speed:g} moves/s"
        + (" (paused)" if paused else "")
    )
    side = Table.grid()
    side.add_row(facts + "\n")
    side.add_row(rows)
    side.add_row("\n" + KEYS)
    view = Table.grid(padding=(0, 1))
    view.add_row(Panel(_drawn(game.board), width=2 * COLUMNS + 4), side)
    return view


def _drawn(board: Board) -> Text:
    return Text("\n".join("".join("██" if cell else " ·" for cell in row) for row in board[::-1]))


def watch(chooser: Chooser, *, number: int, cap: int, most: int, speed: float) -> Game:
    """Play held-out sequence `number` in the terminal and return its last position.

    Without a terminal, the game is played without waiting and only its last board is printed.
    """
    sequence = pieces("bag", rng=np.random.default_rng((HELD_OUT, number)))
    game, console = new_game(sequence), Console()
    if not (console.is_terminal and sys.stdin.isatty()):
        move = None
        while not game.over and game.placed < cap:
            move = decide(game, chooser, most)
            game = _after(move, move.row(), next(sequence))
        console.print(_drawn(game.board), f"{game.placed} pieces, {game.lines} rows", sep="\n")
        return game
    with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        viewer = _Viewer(live, pressed, speed)
        while not (game.over or viewer.ended) and game.placed < cap:
            move = decide(game, chooser, most)
            pick = viewer.wait(move)
            if not viewer.ended:
                game = _after(move, move.row(pick), next(sequence))
    return game


class _Viewer:
    """Shows moves and reads keys between them."""

    def __init__(self, live: Live, pressed: Callable[[float], str], speed: float) -> None:
        self.live, self.pressed, self.speed = live, pressed, speed
        self.paused = False
        self.ended = False

    def wait(self, move: Move) -> int | None:
        """Show a move until it is time to play it; return the candidate that a person chose."""
        until = time.monotonic() + 1 / self.speed
        self._show(move)
        while self.paused or time.monotonic() < until:
            key = self.pressed(0.05)
            if not key:
                continue
            if key == ESCAPE:
                self.ended = True
                return None
            if key == "." and self.paused:
                return None
            pick = ord(key) - ord("a")
            if self.paused and 0 <= pick < len(move.kept.rows):
                return pick
            self._set(key)
            self._show(move)
        return None

    def _set(self, key: str) -> None:
        if key == " ":
            self.paused = not self.paused
        elif key == "+":
            self.speed = min(64.0, 2 * self.speed)
        elif key == "-":
            self.speed = max(0.25, self.speed / 2)

    def _show(self, move: Move) -> None:
        self.live.update(screen(move, speed=self.speed, paused=self.paused), refresh=True)


def _after(move: Move, row: int, upcoming: str) -> Game:
    return move.game.play(move.result.boards[row], int(move.result.cleared[row]), upcoming)


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Read single keys without waiting for a line; the terminal's settings come back at the end."""
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    tty.setcbreak(number)

    def pressed(seconds: float) -> str:
        ready, _, _ = select.select([number], [], [], seconds)
        return os.read(number, 1).decode("latin-1").lower() if ready else ""

    try:
        yield pressed
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def save_svg(
    path: Path, chooser: Chooser, *, number: int, cap: int, most: int, speed: float
) -> Game:
    """Write a game as an SVG that plays in a loop, without scripts.

    Every cell is one rectangle whose opacity changes at the moves at which it fills or empties.
    """
    sequence = pieces("bag", rng=np.random.default_rng((HELD_OUT, number)))
    game = new_game(sequence)
    boards = [game.board]
    while not game.over and game.placed < cap:
        move = decide(game, chooser, most)
        game = _after(move, move.row(), next(sequence))
        boards.append(game.board)
    path.write_text(_svg(np.stack(boards), speed, f"{game.placed} pieces, {game.lines} rows"))
    return game


def _svg(boards: Board, speed: float, label: str) -> str:
    side, duration = 12, len(boards) / speed
    width, height = side * COLUMNS, side * ROWS
    cells = [
        _cell(boards[:, y, x], x * side, (ROWS - 1 - y) * side, side - 1, duration)
        for y in range(ROWS)
        for x in range(COLUMNS)
        if boards[:, y, x].any()
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img"><title>Tetris: {label}</title>'
        f'<rect width="{width}" height="{height}" fill="#888" fill-opacity="0.15"/>'
        f'<g fill="#0072B2">{"".join(cells)}</g></svg>\n'
    )


def _cell(filled: NDArray[np.bool_], x: int, y: int, side: int, duration: float) -> str:
    changes = [0, *(np.nonzero(np.diff(filled.astype(int)))[0] + 1).tolist()]
    times = ";".join(f"{at / len(filled):.4g}" for at in changes)
    values = ";".join(str(int(filled[at])) for at in changes)
    return (
        f'<rect x="{x}" y="{y}" width="{side}" height="{side}" opacity="{int(filled[-1])}">'
        f'<animate attributeName="opacity" calcMode="discrete" dur="{duration:g}s" '
        f'repeatCount="indefinite" keyTimes="{times}" values="{values}"/></rect>'
    )
