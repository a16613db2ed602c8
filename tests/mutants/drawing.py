"""A seeded sample of the mutants of a package, made by the operators of cosmic-ray."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.ast.ast_query import ASTQuery
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

_COMPARISONS: Final = {
    "Eq": ("NotEq",),
    "NotEq": ("Eq",),
    "Lt": ("LtE", "GtE", "Gt"),
    "LtE": ("Lt", "Gt", "GtE"),
    "Gt": ("GtE", "LtE", "Lt"),
    "GtE": ("Gt", "Lt", "LtE"),
    "Is": ("IsNot",),
    "IsNot": ("Is",),
}
_BINARY: Final = {
    "Add": "Sub",
    "Sub": "Add",
    "Mul": "Div",
    "Div": "Mul",
    "FloorDiv": "Div",
    "Mod": "Mul",
    "Pow": "Mul",
    "BitOr": "BitAnd",
    "BitAnd": "BitOr",
    "BitXor": "BitOr",
}
OPERATORS: Final = (
    *(
        f"ReplaceComparisonOperator_{old}_{new}"
        for old, others in _COMPARISONS.items()
        for new in others
    ),
    *(f"ReplaceBinaryOperator_{old}_{new}" for old, new in _BINARY.items()),
    *(f"ReplaceUnaryOperator_{change}" for change in ("USub_UAdd", "Delete_Not", "Delete_Invert")),
    *("AddNot", "ReplaceAndWithOr", "ReplaceOrWithAnd"),
    *("ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "NumberReplacer"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ZeroIterationForLoop"),
)
"""Operators of cosmic-ray that swap an operator, a comparison, a sign, a flag or a number."""

_Place = tuple[int, int]


@dataclass(frozen=True)
class Mutant:
    """One change of one module."""

    path: str
    line: int
    """The line of the change, from 1 on."""
    statement: tuple[int, int]
    """The first and last line of what Python runs as one statement."""
    at_import: bool
    """Whether it is outside of functions, so that importing the module runs it."""
    before: str
    after: str
    """The changed lines, without indentation."""
    code: str
    """The module with the change."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}\n    - {self.before}\n    + {self.after}"


def drawn(root: Path, package: str, seed: int) -> Iterator[Mutant]:
    """Yield the mutants of a package in random order, at most one of each place.

    The order depends on the seed, the function and the operator, and not on line numbers: an edit
    of one function leaves the mutants of the others where they are in the order.
    """
    sites = [
        (_hash(seed, path.relative_to(root), *site[:3]), path, site)
        for path in sorted((root / package).rglob("*.py"))
        for site in _sites(path.read_text("utf-8"))
    ]
    places: set[tuple[Path, _Place]] = set()
    for _, path, (operator, _, _, occurrence, place) in sorted(sites, key=lambda site: site[0]):
        if (path, place) not in places:
            mutant = _mutant(root, path, operator, occurrence, place)
            if mutant is not None:
                places.add((path, place))
                yield mutant


def _hash(*parts: object) -> str:
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()


def _sites(source: str) -> Iterator[tuple[str, str, int, int, _Place]]:
    """Yield operator, function, number in the function, number in the module, and place."""
    tree = get_ast(source)
    excluded = _excluded(ast.parse(source))
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        in_function: dict[str, int] = {}
        places = (
            (str(ASTQuery(node).get_definition_name()), start)
            for node in ast_nodes(tree)
            if getattr(node.parent, "type", "") != "parameters"  # the sign `*` is no product there
            for start, _ in operator.mutation_positions(node)
        )
        for occurrence, (function, place) in enumerate(places):
            number = in_function[function] = in_function.get(function, -1) + 1
            if not any(start <= place < end for start, end in excluded):
                yield name, function, number, occurrence, place


def _excluded(tree: ast.Module) -> list[tuple[_Place, _Place]]:
    """Return what is not mutated, because it computes nothing or only asserts.

    These are annotations, decorators, imports for type checkers, unions of types at the top of a
    module, and `strict=` of `zip`.
    """
    excluded: list[Any] = [
        node for node in tree.body if isinstance(node, ast.Assign) and _is_union(node.value)
    ]
    for node in ast.walk(tree):
        match node:
            case ast.arg(annotation=annotation) | ast.AnnAssign(annotation=annotation):
                excluded.append(annotation)
            case ast.FunctionDef(returns=returns, decorator_list=decorators):
                excluded += [returns, *decorators]
            case ast.ClassDef(decorator_list=decorators):
                excluded += decorators
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                excluded.append(node)
            case ast.keyword(arg="strict"):
                excluded.append(node)
    return [
        ((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset))
        for node in excluded
        if node is not None
    ]


def _is_union(value: ast.expr) -> bool:
    return isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr)


def _mutant(root: Path, path: Path, operator: str, occurrence: int, place: _Place) -> Mutant | None:
    source = path.read_text("utf-8")
    code = mutate_code(source, get_operator(f"core/{operator}")(), occurrence)
    if (
        code is None
        or not _compiles(code)
        or ast.dump(ast.parse(code)) == ast.dump(ast.parse(source))
    ):
        return None
    before, after = source.splitlines(), code.splitlines()
    first = next(
        (at for at, (old, new) in enumerate(zip(before, after, strict=False)) if old != new), 0
    )
    dropped = len(before) - len(after)  # the changed expression may have had several lines
    old, new = before[first : first + 1 + dropped], after[first]
    tree = ast.parse(source)
    return Mutant(
        path.relative_to(root).as_posix(),
        first + 1,
        _statement(tree, place[0]),
        not any(start < place[0] <= end for start, end in _functions(tree)),
        " ".join(" ".join(old).split()),
        " ".join(new.split()),
        code,
    )


def _functions(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of each function; its defaults are on the first."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.body[0].lineno - 1, node.end_lineno or 0


def _compiles(code: str) -> bool:
    try:
        compile(code, "mutant", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _statement(tree: ast.Module, line: int) -> tuple[int, int]:
    """Return the lines of the innermost statement, or of its head if it has a body."""
    spans = []
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            body = getattr(node, "body", None)
            head = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or 0
            if line <= head:
                spans.append((node.lineno, head))
    return min(spans, key=lambda span: span[1] - span[0])
