"""What is shown of a game: the frames of the SVG against the board, and the screen."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np

from tetris.evaluate import BASELINES, play_games
from tetris.play import save_svg, search_choice


def test_the_svg_ends_with_the_last_board_of_the_evaluated_game(tmp_path: Path) -> None:
    path = tmp_path / "game.svg"
    game = save_svg(path, search_choice, number=0, cap=30, most=8, speed=4)
    played = play_games(BASELINES["two-ply"], games=1, cap=30, most=8, source="bag")
    assert (game.placed, game.lines) == (played.placed[0], played.lines[0])
    picture = ET.fromstring(path.read_text())  # noqa: S314 - our own file
    cells = [element for element in picture.iter() if element.get("opacity")]
    last = np.zeros((20, 10), dtype=bool)
    for cell in cells:
        (animation,) = list(cell)
        values = animation.attrib["values"].split(";")
        times = [float(time) for time in animation.attrib["keyTimes"].split(";")]
        assert times == sorted(times)
        assert times[0] == 0
        assert values[0] == "0"
        assert values[-1] == cell.get("opacity")
        row = 19 - int(cell.attrib["y"]) // 12
        last[row, int(cell.attrib["x"]) // 12] = values[-1] == "1"
    np.testing.assert_array_equal(last, game.board)
