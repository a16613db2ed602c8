"""The picture of README and home: the first screen of the demo's page.

`python docs/picture.py FOLDER` writes FOLDER/runs/demo.html and FOLDER/demo.png.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from pact_cli.main import main

SIZE: Final = (1180, 1080)
"""Of the picture, in pixels."""


def write_page(folder: Path) -> Path:
    """Run the demo in a folder, and return the path of its page."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.chdir(folder):
        main(["demo"], standalone_mode=False)
    return folder / "runs" / "demo.html"


def photograph(page: Path, picture: Path) -> None:
    """Take a picture of the first screen with the system's Chromium."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("expected chromium or google-chrome on the path")
    size = f"--window-size={SIZE[0]},{SIZE[1]}"
    flags = ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=10000")
    command = [browser, *flags, size, f"--screenshot={picture}", page.resolve().as_uri()]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - a fixed command


if __name__ == "__main__":
    target = Path(sys.argv[1])
    photograph(write_page(target), target / "demo.png")
