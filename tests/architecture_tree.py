"""The tree of modules, made from the files and the first lines of their docstrings.

python tests/architecture_tree.py    # writes docs/tree.md, and the layers into ARCHITECTURE.md
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
ARCHITECTURE: Final = ROOT / "ARCHITECTURE.md"
TREE: Final = ROOT / "docs" / "tree.md"
PACKAGES: Final = (
    "pact_eval",
    "pact_losses",
    "reports/pact_reports",
    "cli/pact_cli",
    "fixtures/pact_fixtures",
)
_COLUMN: Final = 34
_SKIPPED: Final = ("__init__.py", "__main__.py")


def tree() -> str:
    """Return every package and module with the first line of its docstring."""
    return "\n".join(line for package in PACKAGES for line in _lines(ROOT / package, 0, package))


def layers() -> str:
    """Return the layers of the import contract, highest first."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if contract["type"] == "layers"]
    return "\n".join(contract["layers"])


def block(page: Path, name: str) -> str:
    """Return the text between the markers of a block of a page."""
    text = page.read_text(encoding="utf-8")
    match = re.search(rf"<!-- {name} -->\n```text\n(.*?)\n```\n", text, re.DOTALL)
    assert match, f"{page.name} has no block {name}"
    return match.group(1)


def _lines(folder: Path, depth: int, shown: str) -> list[str]:
    lines = [_line(f"{shown}/", depth, folder / "__init__.py")]
    for path in sorted(folder.iterdir(), key=lambda path: (path.is_dir(), path.name)):
        if path.is_dir() and (path / "__init__.py").exists():
            lines += _lines(path, depth + 1, path.name)
        elif path.suffix == ".py" and path.name not in _SKIPPED:
            lines.append(_line(path.name, depth + 1, path))
    return lines


def _line(name: str, depth: int, path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return f"{'  ' * depth + name:{_COLUMN}} {docstring.partition(chr(10))[0]}".rstrip()


def _write(page: Path, name: str, text: str) -> None:
    old, new = (f"<!-- {name} -->\n```text\n{body}\n```\n" for body in (block(page, name), text))
    page.write_text(page.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


if __name__ == "__main__":
    _write(TREE, "tree", tree())
    _write(ARCHITECTURE, "layers", layers())
