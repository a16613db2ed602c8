"""Leaks that were hidden, by hand: the command of the table of docs/data.md finds each."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from custody.mutations import MUTATIONS, Mutation, Setting, Words, ran


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset, an adapter that was trained on its training file, and a run of both."""
    setting = Setting(tmp_path_factory.mktemp("sound") / "home")
    setting.home.mkdir()
    setting.write_data()
    setting.train(setting.data / "train.jsonl")
    result = setting.scored()
    assert result.exit_code == 0, result.output
    return setting.home


@pytest.fixture
def setting(sound: Path, monkeypatch: pytest.MonkeyPatch) -> Setting:
    """The same in its place, where the run expects it; the next test finds it restored."""
    kept = sound.with_name("kept")
    if not kept.exists():
        shutil.copytree(sound, kept)
    shutil.rmtree(sound)
    shutil.copytree(kept, sound)
    monkeypatch.chdir(sound)
    return Setting(sound)


@pytest.mark.parametrize(
    "mutation",
    [
        pytest.param(change, id=change.what, marks=[pytest.mark.slow] * change.scores)
        for change in MUTATIONS
    ],
)
def test_a_hidden_leak_is_found(setting: Setting, mutation: Mutation) -> None:
    words = mutation.plant(setting)
    result = ran(words)
    assert result.exit_code == mutation.exit_code, result.output
    assert mutation.names in " ".join(result.output.split())
    assert not (setting.home / "again").exists()


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(Setting.score, marks=pytest.mark.slow),
        Setting.audit,
        lambda setting: setting.audit("--data", setting.data),
        Setting.verify,
    ],
    ids=["score", "audit", "audit --data", "verify"],
)
def test_nothing_is_found_where_nothing_is_hidden(
    setting: Setting, command: Callable[[Setting], Words]
) -> None:
    result = ran(command(setting))
    assert result.exit_code == 0, result.output
