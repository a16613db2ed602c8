"""What the docs site adds to the pages: the reference of the commands, and links to the repository.

mkdocs calls the functions `on_...`. The tables of codes are in the pages themselves, where a code
host shows them too, and so is that of import formats; a test compares them with the registries:

    python docs/site_hooks.py    # writes these tables into their pages
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import click

from pact_cli.audit.main import main as audit
from pact_cli.commands import HELP_ALL
from pact_cli.main import main as evaluation
from pact_eval.audit.adapter.audit import ADAPTER_CHECKS
from pact_eval.audit.dataset import DATA_CHECKS
from pact_eval.audit.findings import Check
from pact_eval.importing.registry import sources

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[1]
REPOSITORY: Final = "https://github.com/pact-eval/pact-eval/blob/main"
CODES: Final = ROOT / "docs" / "reference" / "codes.md"
IMPORTS: Final = ROOT / "docs" / "predictions.md"

_LINK: Final = re.compile(r"\]\((?P<target>\.\./[^)#]+)(?P<anchor>#[^)]*)?\)")
_COMMANDS: Final = "<!-- commands -->"
_NAMES: Final = re.compile(r"<!-- names of (?P<module>[\w.]+) -->")
_GENERATED: Final = frozenset(
    f"reference/{name}.md" for name in ("arrays", "pact_eval", "pact_losses", "paper")
)
_BEHIND_GUIDES: Final = 0.0005
"""Factor of a search, in which a title counts 1,000 times as much as text: guides are above."""


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Fill in commands and names of Python, and let links that leave `docs` lead to the repository.

    What is generated comes behind the guides in a search.

    Raises:
        FileNotFoundError: a link leads to nothing.
    """
    folder = (ROOT / "docs" / page.file.src_uri).parent
    if page.file.src_uri in _GENERATED:
        page.meta["search"] = {"boost": _BEHIND_GUIDES}

    def resolved(match: re.Match[str]) -> str:
        path = (folder / match["target"]).resolve(strict=True)
        if path.is_relative_to(ROOT / "docs"):
            return match[0]
        return f"]({REPOSITORY}/{path.relative_to(ROOT).as_posix()}{match['anchor'] or ''})"

    text = _NAMES.sub(lambda match: names(match["module"]), _LINK.sub(resolved, markdown))
    return text.replace(_COMMANDS, commands()) if _COMMANDS in text else text


def names(module: str) -> str:
    """Return what a module exports: functions, whose names are in small letters, before the rest.

    Example:
        >>> names("pact_eval.metrics").split(",")[0]
        'answer_gap_nats'
    """
    return ",".join(
        sorted(exported(import_module(module)), key=lambda name: (not name.islower(), name))
    )


def exported(package: ModuleType) -> list[str]:
    """Return the names that a package exports: those of its `__all__`, or what it imports.

    Example:
        >>> exported(import_module("pact_eval.stats"))[0]
        't_quantile'
    """
    imported = [
        name
        for name, value in vars(package).items()
        if not (name.startswith("_") or isinstance(value, ModuleType))
    ]
    return list(getattr(package, "__all__", imported))


def commands() -> str:
    """Return the help of every command as Markdown, in the order of the programs' own help."""
    parts = []
    for name, group in (("pact-eval", evaluation), ("pact-audit", audit)):
        parent = click.Context(group, info_name=name)
        parts += [f"## {name}", _help(group, parent)]
        for each in group.list_commands(parent):
            command = group.commands[each]
            parts.append(f"### {name} {each}")
            ctx = click.Context(command, parent, info_name=each)
            ctx.meta[HELP_ALL] = True
            parts.append(_help(command, ctx))
    return "\n\n".join(parts)


def codes() -> dict[str, str]:
    """Return the tables of codes by the name of their block."""
    return {
        "data-codes": _codes(DATA_CHECKS),
        "adapter-codes": _codes(ADAPTER_CHECKS),
    }


def pages() -> dict[Path, dict[str, str]]:
    """Return the pages with tables of registries, and the tables by the name of their block."""
    rows = [(f"`{source.name}`", source.title, source.reads) for source in sources()]
    return {
        CODES: codes(),
        IMPORTS: {"formats": _table(("`--from`", "made by", "read from"), rows)},
    }


def with_blocks(page: str, blocks: dict[str, str]) -> str:
    """Return a page with the text between the markers of each block replaced.

    Raises:
        ValueError: the page lacks a block.
    """
    for name, text in blocks.items():
        begin, end = f"<!-- {name}:begin -->\n", f"\n<!-- {name}:end -->"
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            message = f"no block {name}"
            raise ValueError(message)
        page = f"{before}{begin}{text}{end}{after}"
    return page


def _codes(checks: Mapping[str, Check[Any]]) -> str:
    rows = [
        (f"`{code}`", check.name, severity, meaning)
        for check in checks.values()
        for code, (severity, meaning) in check.codes.items()
    ]
    return _table(("code", "check", "severity", "meaning"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _help(command: click.Command, ctx: click.Context) -> str:
    formatter = _MarkdownFormatter()
    command.format_help(ctx, formatter)
    return formatter.getvalue()


class _MarkdownFormatter(click.HelpFormatter):
    """Writes the help of a command, in the groups that the command makes, as Markdown."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        del prefix
        self.write(f"```text\n{prog} {args}\n```\n")

    def write_heading(self, heading: str) -> None:
        self.write(f"**{heading}**\n\n")

    def write_text(self, text: str) -> None:
        self.write("\n\n".join(_escaped(part) for part in text.split("\n\n")) + "\n")

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        del col_max, col_spacing
        self.write(
            "\n".join(f"`{term.strip()}`\n:   {_escaped(text)}\n" for term, text in rows) + "\n"
        )


def _escaped(text: str) -> str:
    """Return plain text as Markdown; what is between backticks is code already."""
    plain, *rest = re.split(r"(`[^`]*`)", " ".join(text.split()))
    parts = [plain, *rest]
    return "".join(
        part if index % 2 else re.sub(r"([\\*_<>\[\]#])", r"\\\1", part)
        for index, part in enumerate(parts)
    )


if __name__ == "__main__":
    for path, blocks in pages().items():
        path.write_text(with_blocks(path.read_text(encoding="utf-8"), blocks), encoding="utf-8")
