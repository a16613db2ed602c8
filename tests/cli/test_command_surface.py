"""What the programs offer: sixteen commands, few options, and words that lead to them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from commands import refuser, runner, with_settings
from messages import assert_says
from run_frames import rows, write_run

from pact_cli.audit.main import main as audit
from pact_cli.commands import MORE, SETTING, Option, PactCommand
from pact_cli.errors import PactGroup
from pact_cli.main import main

COMMANDS = {
    "pact-eval": (
        *("demo", "plan", "score", "import", "experiment", "report", "compare", "drift", "sweep"),
        *("calibrate", "thresholds", "decide", "paper", "export", "register", "scorecard"),
        "verify",
    ),
    "pact-audit": ("data", "adapter", "manifest", "split", "ablate", "convert", "diff"),
}
PROGRAMS: dict[str, PactGroup] = {"pact-eval": main, "pact-audit": audit}
HELP = ("--help", "--help-all")
MOST_SHOWN, MOST, MOST_OF = 12, 20, {"pact-eval score": 30}


def commands() -> Iterator[tuple[str, PactCommand]]:
    for program, group in PROGRAMS.items():
        for name in group.list_commands(click.Context(group)):
            command = group.commands[name]
            assert isinstance(command, PactCommand)
            yield f"{program} {name}", command


def options_of(command: click.Command) -> list[Option]:
    """Returns the options of the command line, without -q, -v and --help."""
    options = [each for each in command.params if isinstance(each, Option)]
    return [option for option in options if option.group != SETTING]


def named_commands(text: str) -> list[tuple[str, str, str]]:
    """Returns program, command and the words after it, for the commands in a text."""
    return re.findall(r"\b(pact-eval|pact-audit) ([a-z]+)([^,;`]*)", text)


def test_these_are_the_commands_and_no_more() -> None:
    for program, names in COMMANDS.items():
        group = PROGRAMS[program]
        assert sorted(group.list_commands(click.Context(group))) == sorted(names)


@pytest.mark.parametrize(("name", "command"), [*commands()], ids=[name for name, _ in commands()])
def test_options_are_few_and_those_of_every_day_come_first(name: str, command: PactCommand) -> None:
    options = options_of(command)
    assert len(options) <= MOST_OF.get(name, MOST)
    assert len([option for option in options if option.group != MORE]) <= MOST_SHOWN
    program, word = name.split()
    short, full = (
        re.split(r"^[A-Z]\w+:$", text, maxsplit=1, flags=re.MULTILINE)[1]
        for text in (runner(PROGRAMS[program])(word, option).stdout for option in HELP)
    )
    for option in (each for each in command.params if isinstance(each, Option)):
        called = max(option.opts, key=len)
        label = called.removeprefix("--") if option.group == SETTING else called
        line = rf"^  (-\w, )?{re.escape(label)}\b"
        assert re.search(line, full, re.MULTILINE), label
        is_rare = option.group in (MORE, SETTING)
        assert bool(re.search(line, short, re.MULTILINE)) != is_rare, label


def test_places_of_other_options_and_words_are_commands_that_exist() -> None:
    places = [place for _, command in commands() for place in command.elsewhere.values()]
    places += [place for group in PROGRAMS.values() for place in group.words.values()]
    assert len(places) > 80
    for program, name, rest in named_commands("; ".join(places)):
        command = PROGRAMS[program].commands[name]
        known = {word for option in options_of(command) for word in option.opts}
        assert {*re.findall(r"--[a-z][\w-]+", rest)} <= known, (name, rest)


def test_an_option_that_is_elsewhere_is_not_here() -> None:
    for name, command in commands():
        here = {word for option in command.params for word in option.opts}
        assert not here & {*command.elsewhere}, name


@pytest.mark.parametrize(
    ("program", "words", "place"),
    [
        (program, words, place)
        for program, group in PROGRAMS.items()
        for words, place in group.words.items()
    ],
)
def test_a_word_that_people_type_names_the_command(program: str, words: str, place: str) -> None:
    message = refuser(PROGRAMS[program])(words, "runs/x", code=2)
    assert_says(message, f"{words} is not a command; use: {place}")


def test_a_path_in_place_of_a_command_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my tickets.csv").write_text("")
    assert "pact-eval report 'my tickets.csv'" in refuser(main)("my tickets.csv", code=2)
    assert "pact-audit data 'my tickets.csv'" in refuser(audit)("my tickets.csv", code=2)
    assert "No such command" in refuser(main)("other.csv", code=2)


def test_a_setting_is_no_option_and_is_read_from_the_file(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", rows(1, families=12), arm="a", seed=1)
    words = ("thresholds", run, "--coverage", 0.8, "-v")
    refused = refuser(main)(*words, "--ties-seed", 3, code=2)
    assert_says(refused, "--ties-seed", "ties-seed = ... below [options.thresholds] in pact.toml")
    told = runner(main)(*words, **with_settings(tmp_path, "thresholds", ties_seed=3)).stderr
    assert_says(told, "ties-seed 3", "thresholds.toml")
