"""The game against boards drawn by hand, published counts, and the points of the guideline."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from tetris.game import (
    PIECES,
    Board,
    Game,
    drop,
    empty_board,
    heights,
    new_game,
    pieces,
    placements,
)
from tetris.search import FEATURES, LOST, WEIGHTS, features, search


def _board(*rows: str) -> Board:
    """Draw the lowest rows of a board, top row first."""
    board = empty_board()
    for y, row in enumerate(reversed(rows)):
        board[y] = [cell == "#" for cell in row]
    return board


def _placed(board: Board, piece: str, rotation: int, column: int) -> tuple[Board, int]:
    moves = placements(piece)
    move = int(np.nonzero((moves.rotation == rotation) & (moves.column == column))[0][0])
    after = drop(board[None], piece)
    assert after.legal[0, move]
    return after.boards[0, move], int(after.cleared[0, move])


@pytest.mark.parametrize(
    ("piece", "count"),
    [("I", 17), ("O", 9), ("T", 34), ("S", 17), ("Z", 17), ("J", 34), ("L", 34)],
)
def test_placements_on_an_empty_board_against_known_counts(piece: str, count: int) -> None:
    result = drop(empty_board()[None], piece)
    assert len(placements(piece)) == count
    assert result.legal.all()
    assert (result.boards.sum((-2, -1)) == 4).all()
    assert len({board.tobytes() for board in result.boards[0]}) == count


FULL = "#########."


@pytest.mark.parametrize(
    ("before", "piece", "rotation", "column", "rows", "after"),
    [
        ((), "J", 1, 0, 0, ("##........", "#.........", "#.........")),  # turned clockwise
        (("..#.......", *[FULL] * 4), "I", 1, 9, 4, ("..#.......",)),
        ((FULL, "########..", FULL), "I", 1, 9, 2, (".........#", "########.#")),
        (("####......", "#........."), "I", 0, 1, 0, (".####.....", "####......", "#.........")),
    ],
)
def test_placements_against_boards_drawn_by_hand(
    before: tuple[str, ...],
    piece: str,
    rotation: int,
    column: int,
    rows: int,
    after: tuple[str, ...],
) -> None:
    board, cleared = _placed(_board(*before), piece, rotation, column)
    assert cleared == rows
    np.testing.assert_array_equal(board, _board(*after))


def test_without_room_a_placement_is_illegal() -> None:
    board = empty_board()
    board[:19, :9] = True
    moves = placements("I")
    expected = (moves.rotation == 0) | (moves.column == 9)
    np.testing.assert_array_equal(drop(board[None], "I").legal[0], expected)
    board[19] = [True] * 8 + [False] * 2
    board[0:20:2, 9] = True
    board[0:20:2, 4] = False
    assert not drop(board[None], "I").legal.any()


@pytest.mark.parametrize(("cleared", "points"), [(0, 0), (1, 100), (2, 300), (3, 500), (4, 800)])
def test_points_against_the_guideline(cleared: int, points: int) -> None:
    game = Game(empty_board(), "I", "O", lines=28)
    after = game.play(game.board, cleared, "T")
    assert (after.points, after.lines, after.piece, after.upcoming) == (
        points,
        28 + cleared,
        "O",
        "T",
    )
    assert after.level == (28 + cleared) // 10


def test_bags_hold_every_piece_once_and_seeds_repeat() -> None:
    dealt = list(islice(pieces("bag", rng=np.random.default_rng(3)), 70))
    again = list(islice(pieces("bag", rng=np.random.default_rng(3)), 70))
    assert dealt == again
    assert all(sorted(dealt[at : at + 7]) == sorted(PIECES) for at in range(0, 70, 7))


def test_features_against_a_count_by_hand() -> None:
    board = _board("##........", "#.#.......", "#.##.....#")
    by_name = dict(zip(FEATURES, features(board, np.array(2)).tolist(), strict=True))
    assert heights(board).tolist() == [3, 3, 2, 1, 0, 0, 0, 0, 0, 1]
    assert by_name == {"rows": 2, "holes": 2, "height": 10, "bumps": 4, "top": 3}


def test_two_ply_values_against_a_slow_search() -> None:
    game = new_game(pieces("bag", rng=np.random.default_rng(5)))
    for _ in range(2):
        result = search(game)
        for row, board in enumerate(result.boards):
            after = drop(board[None], game.upcoming)
            values = [
                float(WEIGHTS @ features(later, result.cleared[row] + cleared))
                for later, cleared, legal in zip(
                    after.boards[0], after.cleared[0], after.legal[0], strict=True
                )
                if legal
            ]
            assert result.two_ply[row] == pytest.approx(max(values))
        game = game.play(result.boards[0], int(result.cleared[0]), "T")


def test_a_placement_that_ends_the_game_has_the_lowest_value() -> None:
    board = empty_board()
    board[:19, 2:] = True
    board[:18, :2] = True
    board[:, 5] = np.arange(20) == 19
    result = search(Game(board, "O", "O"))
    assert result.two_ply.tolist() == [LOST]
    assert result.later.tolist() == result.now.tolist()
