"""The console blocks of the docs site: `$ command` and what it prints.

Pygments takes any line that ends a word with `$`, `#` or `%` for a prompt. An output such as
`[32.0, 44.3]% of the answers change` is then coloured as a command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import RegexLexer, bygroups, using
from pygments.lexers import BashLexer
from pygments.token import Generic

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig


class ConsoleLexer(RegexLexer):  # type: ignore[misc]  # pygments has no types
    """Lexer of `$ command` lines; every other line is output.

    Example:
        >>> [kind for kind, _ in ConsoleLexer().get_tokens("[32.0, 44.3]% of the answers")]
        [Token.Generic.Output]
    """

    name = "Console of the docs"
    tokens = {  # noqa: RUF012 - pygments reads it from the class
        "root": [
            (r"^(\$ )(.*\n)", bygroups(Generic.Prompt, using(BashLexer))),
            (r".*\n", Generic.Output),
        ]
    }


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Let blocks of the language `console` be coloured here."""
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {})
    fences["custom_fences"] = [{"name": "console", "class": "highlight", "format": console_block}]
    return config


def console_block(source: str, *_: Any, **__: Any) -> str:
    """Return a block as the other blocks of code are written, with a button to copy it."""
    formatter = HtmlFormatter(cssclass="language-console highlight", wrapcode=True)
    return str(highlight(f"{source}\n", ConsoleLexer(), formatter))
