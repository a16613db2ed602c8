"""Two questions of other projects, answered from logs: by the commands, and by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import pact_eval
from pact_cli.main import main

LOGS = Path(__file__).resolve().parents[1] / "fixtures" / "logs"


@pytest.mark.parametrize(
    ("first", "second", "counts"),
    [
        # lm-evaluation-harness #3831 asks for a paired test: 3 and 2 of 12 are right.
        ("lm_eval_pair/adapter", "lm_eval_pair/base", (2, 1, 0, 9)),
        # A reworded prompt changes 6 of 50 answers, and the old one, asked again, 2 of 50.
        ("prompt_change/reworded.jsonl", "prompt_change/again.jsonl", (None, 2, 6, None)),
    ],
)
def test_one_command_answers_from_two_logs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: str,
    second: str,
    counts: tuple[int | None, int, int, int | None],
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["report", str(LOGS / first), str(LOGS / second), "--full"])
    assert done.exit_code == 0, done.output
    a, b = (Path("runs") / Path(log).stem for log in (first, second))
    comparison = pact_eval.compare(a, b)
    items = comparison.groups[0].accuracy.items
    assert f"p = {items.p_value:.3f}" in done.stdout
    found = (items.both, items.b, items.c, items.neither)
    assert [n for n, m in zip(found, counts, strict=True) if m is not None] == [
        m for m in counts if m is not None
    ]
    assert comparison.conclusion.status == "not shown"
    if counts[2] == 6:
        assert items.p_value == pytest.approx(2 * (1 + 8 + 28) / 2**8)  # 2 of 8 or fewer
