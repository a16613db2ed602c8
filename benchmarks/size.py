"""Size of the product: lines of code, modules, classes, importers, and what commands execute.

    python benchmarks/size.py runs/demo-nimble_recipe runs/demo-pact DATA

Code is lines without docstrings, comments and blanks. A module with one importer could be a part of
it. What a command executes is counted in this process, in functions and modules of ours.
"""

from __future__ import annotations

import ast
import contextlib
import io
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from pact_cli.audit.main import main as audit
from pact_cli.main import main as evaluate

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("pact_eval", "pact_losses", "cli", "reports", "fixtures")
OTHERS = ("tests", "benchmarks", "examples")


def code_lines(path: Path) -> int:
    """Return the number of lines of code of a file."""
    text = path.read_text("utf-8")
    documented = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(
        bool(line) and not line.startswith("#") and at not in documented for at, line in lines
    )


def module_name(path: Path) -> str:
    """Return the name by which a file of the product is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[1:] if parts[0] in PRODUCT[2:] else parts).removesuffix(".__init__")


def executed(command: list[str]) -> tuple[int, int]:
    """Return the numbers of functions and of modules of ours that a command executes."""
    seen: set[tuple[str, str, int]] = set()

    def profile(frame: object, event: str, _: object) -> None:
        code = getattr(frame, "f_code")  # noqa: B009
        file = Path(code.co_filename)
        ours = event == "call" and file.is_relative_to(ROOT) and "site-packages" not in file.parts
        if ours and code.co_name != "<module>":
            seen.add((code.co_filename, code.co_name, code.co_firstlineno))

    program = audit if command[0] == "data" else evaluate
    sys.setprofile(profile)
    with contextlib.redirect_stdout(io.StringIO()):
        CliRunner().invoke(program, command)
    sys.setprofile(None)
    return len(seen), len({file for file, _, _ in seen})


def sizes(files: list[Path]) -> Iterator[str]:
    """Yield a line for each number of the tree."""
    for top in (*PRODUCT, *OTHERS):
        yield f"{top}: {sum(map(code_lines, (ROOT / top).rglob('*.py'))):,} lines"
    trees = {module_name(path): ast.parse(path.read_text("utf-8")) for path in files}
    importers: Counter[str] = Counter()
    imports = 0
    for tree in trees.values():
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        imports += sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in nodes)
        from_ = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        named = {f"{node.module}.{name.name}" for node in from_ for name in node.names}
        importers.update((named | {name.rpartition(".")[0] for name in named}) & set(trees))
    total = sum(map(code_lines, files))
    nodes_of = (node for tree in trees.values() for node in ast.walk(tree))
    yield f"product: {total:,} lines, {len(files)} modules"
    yield f"classes: {sum(isinstance(node, ast.ClassDef) for node in nodes_of)}"
    yield f"imports: {imports / total:.1%} of code"
    yield f"modules with one importer: {sum(count == 1 for count in importers.values())}"
    words = sum(len(page.read_text("utf-8").split()) for page in (ROOT / "docs").rglob("*.md"))
    yield f"docs: {words:,} words"


def main() -> None:
    """Print the numbers."""
    lines = [*sizes([path for top in PRODUCT for path in sorted((ROOT / top).rglob("*.py"))])]
    a, b, data = sys.argv[1:]
    for command in (["compare", a, b], ["report", a], ["data", data]):
        functions, modules = executed(command)
        lines.append(f"{command[0]}: {functions:,} functions in {modules} modules")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
