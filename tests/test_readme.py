"""The outputs in the README and in the docs are the commands' own, and their Python runs.

A console block is `$ command` and what it prints, or the first lines of it and `...`, or `...` and
its last lines, or lines between two `...`. Numbers may differ in their last digits between
processors; words may not. PACT_UPDATE_README=1 writes the blocks anew.
"""

from __future__ import annotations

import contextlib
import doctest
import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pact_cli.audit.main import main as audit
from pact_cli.main import main as evaluation

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
BLOCK = re.compile(r"```console\n\$ (?P<command>.+)\n(?P<output>(?:(?!```).*\n)*)```\n")
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e-\d+)?")
DOCS = ROOT / "docs"
_WIDE = ("adapter.md", "ci.md", "predictions.md", "thresholds.md")
_NARROW = ("compare.md", "data.md", "order.md", "report.md", "templates.md")
PAGES = (
    {README: 92}
    | dict.fromkeys((DOCS / name for name in _NARROW), 92)
    | dict.fromkeys((DOCS / name for name in _WIDE), 120)
)
"""The pages, and the columns of their outputs: code hosts show a README in 92 columns."""
_PYTHON = ("ci.md", "compare.md", "python.md", "share.md", "thresholds.md")
EXAMPLES = (README, *(DOCS / name for name in _PYTHON))
"""The pages with Python."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the fixtures, the docs and all runs of demos, where commands are started."""
    home = tmp_path_factory.mktemp("readme")
    for name in ("fixtures", "docs"):
        (home / name).symlink_to(ROOT / name)
    command = ["make", "--dry-run", "demo-score"]
    planned = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = [line for line in planned.splitlines() if "pact-eval score" in line]
    assert len(lines) == 2
    for line in lines:
        _output(line[line.index("pact-eval ") :], home)
    _output("pact-eval demo", home)
    # The page on remedies compares contextual calibration too, which needs further prompts.
    _output(f"{lines[0][lines[0].index('pact-eval ') :]} --content-free", home)
    return home


@functools.cache
def _output(command: str, home: Path, columns: int = 120) -> str:
    program, *arguments = shlex.split(command)
    if "--help" in arguments:  # click's runner has its own width of help texts
        return _in_a_process(program, arguments)
    group = {"pact-eval": evaluation, "pact-audit": audit}[program]
    with contextlib.chdir(home):
        done = CliRunner(env={"COLUMNS": str(columns)}).invoke(group, arguments, prog_name=program)
    assert done.exit_code in (0, 3, 4), done.output  # gates say what they find by 3 and 4
    return done.stdout


def _in_a_process(program: str, arguments: list[str]) -> str:
    module = {"pact-eval": "pact_cli", "pact-audit": "pact_cli.audit"}[program]
    command = [sys.executable, "-m", module, *arguments]
    environment = os.environ | {"COLUMNS": "120"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def _blocks(page: Path) -> dict[str, str]:
    text = page.read_text(encoding="utf-8")
    return {m["command"]: m["output"] for m in BLOCK.finditer(text)}


def test_the_first_answer_of_the_readme_is_what_the_command_prints(tmp_path: Path) -> None:
    """From a folder with one file; `test_the_blocks_...` has all blocks."""
    shutil.copy(ROOT / "fixtures" / "pact_fixtures" / "tickets" / "tickets-new.csv", tmp_path)
    (command,) = (command for command in _blocks(README) if "runs/" not in command)
    _assert_shown(_blocks(README)[command], _output(command, tmp_path, PAGES[README]), command)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_blocks_are_what_the_commands_print(page: Path, project: Path) -> None:
    blocks = _blocks(page)
    assert blocks
    if page in EXAMPLES:  # a command may read what they write
        _run_examples(page, project)
    printed = {command: _output(command, project, PAGES[page]) for command in blocks}
    if os.environ.get("PACT_UPDATE_README"):
        _update(page, printed)
        blocks = _blocks(page)
    for command, shown in blocks.items():
        _assert_shown(shown, printed[command], command)


def _assert_shown(shown: str, printed: str, command: str) -> None:
    lines = shown.rstrip("\n").split("\n")
    real = _like(lines, printed)
    assert len(lines) == len(real), command
    for line, expected in zip(lines, real, strict=True):
        _assert_alike(line.rstrip(), expected.rstrip())


def _like(shown: list[str], printed: str) -> list[str]:
    """Return what a command printed, cut as the lines of a block are."""
    real = [line.rstrip() for line in printed.rstrip("\n").split("\n")]
    if shown[0] == shown[-1] == "...":
        first = [_squeezed(line) for line in real].index(_squeezed(shown[1]))
        return ["...", *real[first : first + len(shown) - 2], "..."]
    if shown[0] == "...":
        return ["...", *real[1 - len(shown) :]]
    if shown[-1] == "...":
        return [*real[: len(shown) - 1], "..."]
    return real


def _assert_alike(line: str, expected: str) -> None:
    assert _squeezed(line) == _squeezed(expected)
    for shown, real in zip(NUMBER.findall(line), NUMBER.findall(expected), strict=True):
        # One answer of 324 that tips over moves a rate by 0.3 points, an interval's end by more.
        assert abs(float(shown) - float(real)) <= max(1.0, 0.02 * abs(float(real))), line


def _squeezed(line: str) -> str:
    return re.sub(r" +", " ", NUMBER.sub("#", line))


def _update(page: Path, printed: dict[str, str]) -> None:
    def block(match: re.Match[str]) -> str:
        lines = _like(match["output"].rstrip("\n").split("\n"), printed[match["command"]])
        return "\n".join(["```console", f"$ {match['command']}", *lines, "```", ""])

    text = page.read_text(encoding="utf-8")
    page.write_text(BLOCK.sub(block, text), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.name)
def test_the_python_examples_run(page: Path, project: Path) -> None:
    _run_examples(page, project)


@functools.cache  # two tests of a page need them, and neither needs them twice
def _run_examples(page: Path, home: Path) -> None:
    # For doctest, a blank line ends an output; on our pages, a table may follow one.
    text = re.sub(r"\n\n(?=\+--)", "\n<BLANKLINE>\n", page.read_text(encoding="utf-8"))
    examples = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    with contextlib.chdir(home):
        results = doctest.DocTestRunner(_AlikeTables()).run(examples)
    assert results.attempted >= 3
    assert results.failed == 0


class _AlikeTables(doctest.OutputChecker):
    """Compares output exactly, but that with a table as the outputs of commands."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if "+---" not in want:
            return super().check_output(want, got, optionflags)
        _assert_shown(want.replace("<BLANKLINE>", ""), got, "Python")
        return True


@pytest.mark.parametrize("page", [README, *sorted(DOCS.rglob("*.md"))], ids=str)
def test_links_lead_to_files(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text) + re.findall(r'src="([^":]+)"', text):
        assert (page.parent / target).exists(), target
