"""The game: boards, pieces, placements, line clears, points and sequences of pieces.

A board is a boolean array (20, 10); row 0 is the bottom. A placement is a rotation and a column:
the piece falls straight down from above (a hard drop), so nothing is slid under an overhang. The
game ends when no placement of the piece fits into the 20 rows.

Rows cleared at once score 100, 300, 500 and 800 points, the guideline's values at its first level.
The level is rows // 10 and does not multiply them. Both follow from the paper's figures: 65,700
points for 598 rows are 110 per row, and more than 130 rows reached level 13.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

ROWS: Final = 20
COLUMNS: Final = 10
PIECES: Final = "IOTSZJL"
POINTS: Final = (0, 100, 300, 500, 800)
"""Points for 0 to 4 rows cleared at once."""

Board = NDArray[np.bool_]
Source = Literal["bag", "uniform"]

_SHAPES: Final = {
    "I": ("####",),
    "O": ("##", "##"),
    "T": (".#.", "###"),
    "S": (".##", "##."),
    "Z": ("##.", ".##"),
    "J": ("#..", "###"),
    "L": ("..#", "###"),
}


@dataclass(frozen=True)
class Placements:
    """Every placement of a piece inside the walls, whatever the board.

    Attributes:
        rotation: shape (P,); quarter turns clockwise from the piece's first position.
        column: shape (P,); leftmost column of the piece, 0 at the left wall.
        x: shape (P, 4); column of each of the four cells.
        y: shape (P, 4); row of each cell above the lowest.
    """

    rotation: NDArray[np.int64]
    column: NDArray[np.int64]
    x: NDArray[np.int64]
    y: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rotation)


@functools.cache
def placements(piece: str) -> Placements:
    """Return the placements of a piece: each distinct rotation in each column.

    Examples:
        >>> [len(placements(piece)) for piece in PIECES]
        [17, 9, 34, 17, 17, 34, 34]
    """
    shape = np.array([[cell == "#" for cell in row] for row in _SHAPES[piece]])
    rows: list[tuple[int, int, NDArray[np.int64], NDArray[np.int64]]] = []
    seen: set[bytes] = set()
    for turns in range(4):
        turned = np.rot90(shape, -turns)
        key = bytes(turned.shape) + turned.tobytes()
        if key in seen:
            continue
        seen.add(key)
        y, x = np.nonzero(turned[::-1])
        rows += [(turns, at, x + at, y) for at in range(COLUMNS - turned.shape[1] + 1)]
    rotation, column, xs, ys = zip(*rows, strict=True)
    return Placements(np.array(rotation), np.array(column), np.array(xs), np.array(ys))


def empty_board() -> Board:
    """Return a board without cells."""
    return np.zeros((ROWS, COLUMNS), dtype=bool)


def heights(boards: Board) -> NDArray[np.int64]:
    """Return the height of every column: shape (..., 20, 10) to (..., 10)."""
    from_top = boards[..., ::-1, :]
    top: NDArray[np.int64] = np.where(from_top.any(-2), ROWS - from_top.argmax(-2), 0)
    return top


@dataclass(frozen=True)
class Drops:
    """Results of dropping a piece, for every board and placement.

    Attributes:
        legal: shape (N, P); whether all four cells are inside the 20 rows.
        boards: shape (N, P, 20, 10), after rows were cleared; unchanged where illegal.
        cleared: shape (N, P); rows cleared, 0 to 4.
    """

    legal: NDArray[np.bool_]
    boards: Board
    cleared: NDArray[np.int64]


def drop(boards: Board, piece: str) -> Drops:
    """Drop a piece on each of N boards, in every placement.

    Args:
        boards: shape (N, 20, 10).
        piece: one of `PIECES`.
    """
    moves = placements(piece)
    n, count = len(boards), len(moves)
    lowest = (heights(boards)[:, moves.x] - moves.y).max(-1)
    rows = lowest[..., None] + moves.y
    legal = (rows < ROWS).all(-1)
    after = np.repeat(boards[:, None], count, axis=1)
    board, move = np.nonzero(legal)
    after[board[:, None], move[:, None], rows[board, move], moves.x[move]] = True
    flat = after.reshape(n * count, ROWS, COLUMNS)
    full = np.asarray(flat.all(-1))
    cleared = full.sum(-1)
    hit = np.nonzero(cleared)[0]
    flat[hit] = _without_rows(flat[hit], full[hit])
    return Drops(legal, after, cleared.reshape(n, count))


def _without_rows(boards: Board, full: NDArray[np.bool_]) -> Board:
    """Remove full rows; the rows above move down."""
    order = np.argsort(full, axis=-1, kind="stable")
    emptied = np.where(full[..., None], False, boards)
    return np.take_along_axis(emptied, order[..., None], axis=-2)


@dataclass(frozen=True)
class Game:
    """One position of a game.

    Attributes:
        board: shape (20, 10).
        piece: the piece to place.
        upcoming: the visible next piece.
        placed: pieces placed so far.
        lines: rows cleared so far.
        points: points so far.
        over: whether the piece has no legal placement.
    """

    board: Board
    piece: str
    upcoming: str
    placed: int = 0
    lines: int = 0
    points: int = 0
    over: bool = False

    @property
    def level(self) -> int:
        """The level: one for every ten rows."""
        return self.lines // 10

    def play(self, board: Board, cleared: int, upcoming: str) -> Game:
        """Return the position after a placement.

        Args:
            board: the board after it, as in `Drops.boards`.
            cleared: rows that it cleared.
            upcoming: the new visible next piece.
        """
        after = replace(
            self,
            board=board,
            piece=self.upcoming,
            upcoming=upcoming,
            placed=self.placed + 1,
            lines=self.lines + cleared,
            points=self.points + POINTS[cleared],
        )
        return replace(after, over=not drop(board[None], after.piece).legal.any())


def pieces(source: Source, *, rng: np.random.Generator) -> Iterator[str]:
    """Yield pieces forever.

    Args:
        source: "bag" shuffles the seven pieces and deals them all before it shuffles again;
            "uniform" draws each piece independently.
        rng: random numbers.

    Examples:
        >>> from itertools import islice
        >>> dealt = islice(pieces("bag", rng=np.random.default_rng(0)), 7)
        >>> "".join(sorted(dealt)) == "".join(sorted(PIECES))
        True
    """
    while True:
        if source == "bag":
            yield from rng.permutation(list(PIECES)).tolist()
        else:
            yield PIECES[int(rng.integers(len(PIECES)))]


def new_game(sequence: Iterator[str]) -> Game:
    """Return the first position of a game on a sequence of pieces."""
    return Game(empty_board(), next(sequence), next(sequence))
