"""The lock has every version of constraints.txt with hashes, and says why torch is not in it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
ENTRIES = re.findall(r"^([\w.-]+)==([^\s;]+)(.*?)(?=^\S|\Z)", LOCK, re.MULTILINE | re.DOTALL)


def _name(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


PINS = {
    _name(line.partition("==")[0]): line.partition("==")[2].strip()
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    if "==" in line and not line.startswith("#")
}


def test_versions_are_those_of_the_constraints() -> None:
    assert len(ENTRIES) > 100
    locked = {_name(name): version for name, version, _ in ENTRIES}
    differing = {name: at for name, at in locked.items() if PINS.get(name, at) != at}
    assert not differing


def test_every_package_has_a_hash() -> None:
    assert all("--hash=sha256:" in rest for _, _, rest in ENTRIES)


def test_actions_and_images_are_pinned_and_no_credentials_are_kept() -> None:
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = workflow.read_text("utf-8")
        used = re.findall(r"uses: (\S+)", text)
        assert used
        assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in used)
        images = re.findall(r"\b(?:container|image): (\S+)", text)
        assert all("@sha256:" in image for image in images)
        assert "-latest" not in text
        assert text.count("persist-credentials: false") == text.count("actions/checkout@")
