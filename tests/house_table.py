"""A table of how cheap the house is to extend: lines, imports, bootstraps, names and pinned texts.

    python tests/house_table.py [CHECKOUT ...] [--runs RUN RUN]

Prints one Markdown table with a column per checkout of the repository, by default this one. To show
a change, give a worktree of the commit before it: `git worktree add ../before COMMIT`. `make demo`
makes the two runs, `runs/demo-*`. Without them, rows that need runs say "not measured".
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
RUNS: Final = (Path("runs/demo-nimble_recipe"), Path("runs/demo-pact"))
PROJECTS: Final = ("", "cli", "reports", "fixtures")
"""Folders of a checkout that Python searches for packages."""

PRODUCT: Final = (
    "pact_eval",
    "pact_losses",
    "cli/pact_cli",
    "reports/pact_reports",
    "fixtures/pact_fixtures",
)
OTHERS: Final = ("benchmarks", "examples")
VAGUE: Final = frozenset({"found", "each", "known", "given", "said", "wanted", "asked"})
"""Words that say that a value exists, not what it is."""

PINNED_WORDS: Final = 5
NOT_MEASURED: Final = "not measured"

_MODULES: Final = """
import sys
from {module} import main
main({arguments!r}, standalone_mode=False)
ours = {packages!r}
print(sum(name.partition(".")[0] in ours for name in sys.modules), file=sys.stderr)
"""
_BOOTSTRAPS: Final = """
import sys
from pact_eval.stats import bootstrap
draws = []
weight_batches = bootstrap.weight_batches
def counted(*arguments):
    draws.append(arguments)
    return weight_batches(*arguments)
bootstrap.weight_batches = counted
from pact_cli.main import main
main({arguments!r}, standalone_mode=False)
print(len(draws), file=sys.stderr)
"""


def rows(checkout: Path, runs: list[Path]) -> dict[str, str]:
    """Return the measurements of a checkout by name."""
    lines = {package: _lines(checkout / package) for package in (*PRODUCT, *OTHERS)}
    inits = _modules(checkout, *PRODUCT)
    vague = ", ".join(f"`{word}`" for word in sorted(VAGUE))
    return {
        "lines of the product": f"{sum(lines[package] for package in PRODUCT):,}",
        **{f"lines of `{package}`": f"{count:,}" for package, count in lines.items()},
        "lines of re-exporting `__init__` files": f"{sum(map(_re_exporting_lines, inits)):,}",
        **_of_commands(checkout, runs),
        f"{vague} as names, without tests": (
            f"{sum(map(_vague_names, _modules(checkout, *PRODUCT, *OTHERS))):,}"
        ),
        "the same in tests": f"{sum(map(_vague_names, _modules(checkout, 'tests'))):,}",
        f"asserts that pin a text of {PINNED_WORDS} or more words": (
            f"{sum(map(_pinning_asserts, _modules(checkout, 'tests'))):,}"
        ),
    }


def table(checkouts: list[Path], runs: list[Path]) -> str:
    """Return the Markdown table of checkouts, one column each."""
    columns = [rows(checkout, runs) for checkout in checkouts]
    cells = [
        ["what", *(checkout.name for checkout in checkouts)],
        ["---", *("---:" for _ in checkouts)],
        *([name, *(column[name] for column in columns)] for name in columns[0]),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _modules(checkout: Path, *folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((checkout / folder).rglob("*.py"))


def _tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


def _lines(folder: Path) -> int:
    """Count the lines of all modules of a folder, without blank lines and docstrings."""
    total = 0
    for module in folder.rglob("*.py"):
        docstring_lines = {
            number
            for node in ast.walk(_tree(module))
            if isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        text = module.read_text(encoding="utf-8")
        total += sum(
            bool(line.strip()) and number not in docstring_lines
            for number, line in enumerate(text.splitlines(), start=1)
        )
    return total


def _re_exporting_lines(module: Path) -> int:
    """Count the lines of an `__init__` file that imports names, and 0 for any other module."""
    if module.name != "__init__.py":
        return 0
    imports = [node for node in _tree(module).body if isinstance(node, ast.ImportFrom)]
    if all(node.module == "__future__" for node in imports):
        return 0
    return len(module.read_text(encoding="utf-8").splitlines())


def _vague_names(module: Path) -> int:
    """Count the vague words among variables, parameters, functions, attributes and keywords.

    Imported names, such as `given` of Hypothesis, and attributes of imported names are left out:
    where they are ours, they are counted in the module that defines them.
    """
    tree = _tree(module)
    imported = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    names: Counter[str] = Counter()
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=owner)) if owner in imported:
                continue
            case ast.Name(id=name) if name in imported:
                continue
            case ast.Name(id=name) | ast.Attribute(attr=name):
                names[name] += 1
            case ast.arg(arg=name) | ast.keyword(arg=str(name)):
                names[name] += 1
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names[name] += 1
    return sum(names[word] for word in VAGUE)


def _pinning_asserts(module: Path) -> int:
    """Count the asserts that compare with a text of several words."""
    return sum(
        any(_has_many_words(part) for part in ast.walk(node.test))
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.Assert)
    )


def _has_many_words(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=str(text)):
            words = [word for word in text.split() if any(map(str.isalpha, word))]
            return len(words) >= PINNED_WORDS
    return False


def _of_commands(checkout: Path, runs: list[Path]) -> dict[str, str]:
    """Return what commands import and draw."""
    data = str(checkout / "fixtures" / "pact_fixtures" / "data")
    first, second = (str(folder.resolve()) for folder in runs)
    made = all(folder.is_dir() for folder in runs)
    return {
        "our modules that `pact-audit data` imports": _imported(
            checkout, "pact_cli.audit.main", ["data", data]
        ),
        "our modules that `report` imports": (
            _imported(checkout, "pact_cli.main", ["report", first]) if made else NOT_MEASURED
        ),
        "bootstraps for a page of two runs": (
            _bootstraps(checkout, [first, second]) if made else NOT_MEASURED
        ),
    }


def _imported(checkout: Path, module: str, arguments: list[str]) -> str:
    packages = [Path(package).name for package in PRODUCT]
    code = _MODULES.format(module=module, arguments=arguments, packages=packages)
    return _last_line(checkout, code)


def _bootstraps(checkout: Path, runs: list[str]) -> str:
    """Count how often a page draws resamples."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["report", *runs, "--html", str(Path(folder) / "page.html")]
        return _last_line(checkout, _BOOTSTRAPS.format(arguments=arguments))


def _last_line(checkout: Path, code: str) -> str:
    """Run code in a new process with the packages of a checkout; return its last line of errors."""
    path = os.pathsep.join(str(checkout / project) for project in PROJECTS)
    completed = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, "PYTHONPATH": path, "PACT_EVAL_CONFIG": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    return completed.stderr.strip().splitlines()[-1]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", nargs="*", type=Path, default=[ROOT])
    parser.add_argument("--runs", nargs=2, type=Path, default=list(RUNS))
    options = parser.parse_args()
    checkouts = [checkout.resolve() for checkout in options.checkouts]
    sys.stdout.write(table(checkouts, options.runs) + "\n")


if __name__ == "__main__":
    main()
