"""A plain installation, from the wheel alone: `make plain` runs this.

It builds the wheel, installs it without any extra, from wheels only and with no compiler, into a
new environment, and starts the first commands of a visitor in an empty folder. It prints what each
takes and what weighs. It ends with 1 if a command fails, if the demo takes too much processor time
or if the installation is too large. It needs the package index, and environments with `bin`.

`make floors` (`--floors`) installs the smallest version of everything that pyproject.toml allows,
with the extras that need no accelerator, and scores the demo too. torch is that of constraints.txt:
older ones of the index bring gigabytes of CUDA.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
COMMANDS: Final = (
    "pact-eval demo",
    "pact-eval report tickets-new.csv",
    "pact-eval report runs/tickets-new runs/tickets-old",
    "pact-eval compare runs/tickets-new runs/tickets-old",
    "pact-eval verify runs/tickets-new runs/tickets-old",
    "pact-audit data tickets-new.csv",
)
EXTRAS: Final = "model,server,ray,inspect,remote"
MOST_MIB: Final = 540
"""polars has 178, scipy 136, matplotlib with what it needs 85, numpy 68."""
MOST_SECONDS: Final = 10.0
"""Of processor time for the demo, which also writes the font cache of matplotlib."""
_SHOWN: Final = 10


def install(folder: Path) -> Path:
    """Build the wheel, install it into a new environment, and return the folder of its programs."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*build, str(folder / "wheel"), str(ROOT)], check=True)
    (wheel,) = (folder / "wheel").glob("pact_eval-*.whl")
    venv.create(folder / "plain", with_pip=True)
    programs = folder / "plain" / "bin"
    pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    constraint = ["--constraint", str(ROOT / "constraints.txt")]
    environment = {**os.environ, "CC": "no-compiler", "CXX": "no-compiler"}
    subprocess.run([*pip, *constraint, str(wheel)], check=True, env=environment)
    return programs


def install_floors(folder: Path) -> Path:
    """Install this checkout with the smallest versions, and return the folder of its programs."""
    (torch,) = re.findall("^torch==.+$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    (folder / "torch.txt").write_text(torch)
    venv.create(folder / "floors")
    programs = folder / "floors" / "bin"
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python"]
    options = ["--resolution", "lowest-direct", "--override", str(folder / "torch.txt")]
    subprocess.run([*uv, str(programs / "python"), *options, f"{ROOT}[{EXTRAS}]"], check=True)
    return programs


def weights(folder: Path) -> Counter[str]:
    """Return the MiB of each package of an environment, without those of pip itself."""
    (packages,) = folder.rglob("site-packages")
    total: Counter[str] = Counter()
    for path in packages.rglob("*"):
        name = path.relative_to(packages).parts[0]
        if not path.is_symlink() and path.is_file():
            total[name.removesuffix(".libs")] += path.stat().st_size
    own = ("pip", "setuptools", "pkg_resources", "_distutils_hack")
    return Counter({name: size / 2**20 for name, size in total.items() if name not in own})


def start(words: Sequence[str], programs: Path, home: Path) -> float:
    """Run a command in a folder, with nothing of this checkout on its path; return its seconds."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment = {**clean, "MPLCONFIGDIR": str(home.parent / "matplotlib")}
    began, before = time.perf_counter(), _processor_seconds()
    done = subprocess.run(
        [str(programs / words[0]), *words[1:]],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    elapsed, busy = time.perf_counter() - began, _processor_seconds() - before
    first = (done.stdout or done.stderr).partition("\n")[0]
    sys.stdout.write(f"{elapsed:5.1f} s, {busy:4.1f} s of processor: {' '.join(words)}: {first}\n")
    if done.returncode:
        sys.exit(f"exit code {done.returncode}: {done.stdout}{done.stderr}")
    return busy


def check_hint(programs: Path, home: Path) -> None:
    """Check that a command that needs an extra names it as pip takes it, without a checkout."""
    words = [str(programs / "pact-eval"), "score", ".", "--data", "tickets-new.csv"]
    done = subprocess.run(words, cwd=home, capture_output=True, text=True, check=False)
    said = " ".join(done.stderr.split())
    if done.returncode != 1 or "pip install 'pact-eval[model]'" not in said:
        sys.exit(f"expected the extra to install, got exit code {done.returncode}: {said}")


def _processor_seconds() -> float:
    used = os.times()
    return used.children_user + used.children_system


def main() -> None:
    """Install, weigh and start."""
    with tempfile.TemporaryDirectory() as name:
        folder, home = Path(name), Path(name) / "home"
        if "--floors" in sys.argv:
            home.mkdir()
            programs = install_floors(folder)
            for command in (*COMMANDS, "pact-eval demo --score --out scored"):
                start(command.split(), programs, home)
            return
        programs = install(folder)
        found = weights(folder / "plain")
        sizes = ", ".join(f"{name} {size:.0f}" for name, size in found.most_common(_SHOWN))
        sys.stdout.write(f"{found.total():.0f} MiB: {sizes}\n")
        home.mkdir()
        seconds = [start(command.split(), programs, home) for command in COMMANDS]
        check_hint(programs, home)
    if found.total() > MOST_MIB or seconds[0] > MOST_SECONDS:
        sys.exit(f"expected at most {MOST_MIB} MiB, and {MOST_SECONDS:.0f} s for the demo")


if __name__ == "__main__":
    main()
