"""Text from data as LaTeX that any engine sets: ASCII, nothing that acts."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from pact_eval.plain_text import one_line

__all__ = ["latex_text"]

_ESCAPES: Final = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # The straight quote needs an encoding that classes do not load.
    '"': r"\textquotedblright{}",
}

_UNICODE: Final = {
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "‘": r"\textquoteleft{}",
    "’": r"\textquoteright{}",
    "“": r"\textquotedblleft{}",
    "”": r"\textquotedblright{}",
    "…": r"\ldots{}",
    "§": r"\S{}",
    "©": r"\copyright{}",
    "ß": r"\ss{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "å": r"\aa{}",
    "Å": r"\AA{}",
    "œ": r"\oe{}",
    "Œ": r"\OE{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "ı": r"\i{}",
    **{
        sign: f"${command}$"
        for sign, command in {
            "−": "-",
            "±": r"\pm",
            "×": r"\times",
            "÷": r"\div",
            "·": r"\cdot",
            "°": r"{}^{\circ}",
            "↑": r"\uparrow",
            "↓": r"\downarrow",
            "→": r"\rightarrow",
            "←": r"\leftarrow",
            "≤": r"\leq",
            "≥": r"\geq",
            "≠": r"\neq",
            "≈": r"\approx",
            "∞": r"\infty",
            "†": r"\dagger",
            "‡": r"\ddagger",
            "√": r"\surd",
            "∈": r"\in",
            "∂": r"\partial",
            "∑": r"\sum",
            "λ": r"\lambda",
            "α": r"\alpha",
            "β": r"\beta",
            "γ": r"\gamma",
            "δ": r"\delta",
            "ε": r"\varepsilon",
            "η": r"\eta",
            "θ": r"\theta",
            "κ": r"\kappa",
            "μ": r"\mu",
            "µ": r"\mu",
            "π": r"\pi",
            "ρ": r"\rho",
            "σ": r"\sigma",
            "τ": r"\tau",
            "φ": r"\varphi",
            "χ": r"\chi",
            "ψ": r"\psi",
            "ω": r"\omega",
            "Γ": r"\Gamma",
            "Δ": r"\Delta",
            "Θ": r"\Theta",
            "Λ": r"\Lambda",
            "Π": r"\Pi",
            "Σ": r"\Sigma",
            "Φ": r"\Phi",
            "Ψ": r"\Psi",
            "Ω": r"\Omega",
            "²": "{}^{2}",
            "³": "{}^{3}",
            "¹": "{}^{1}",
            "½": r"\frac{1}{2}",
        }.items()
    },
}
_ACCENTS: Final = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0304": "=",
    "\u0306": "u",
    "\u0307": ".",
    "\u0308": '"',
    "\u030a": "r",
    "\u030b": "H",
    "\u030c": "v",
    "\u0327": "c",
}
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 .,:;!?()\[\]/*+='`@-]")
# Ligatures that would show other signs than the data have.
_LIGATURES = re.compile(r"(?<=-)(?=-)|(?<=[`'])(?=[`'])|(?<=[?!])(?=`)")


def latex_text(text: str) -> str:
    r"""Escape text from data for LaTeX: in ASCII, nothing that acts, one line.

    Signs that LaTeX has a command for become it, accented letters too; others are named by their
    code point, since what a document's fonts have is not known here.

    Example:
        >>> print(latex_text("50% of a_b ≤ {2} – naïve \\end 中"))
        50\% of a\_b $\leq$ \{2\} \textendash{} na\"{\i}ve \textbackslash{}end [U+4E2D]
    """
    parted = _LIGATURES.sub("\0", one_line(text))
    return _NOT_PLAIN.sub(lambda match: _sign(match[0]), parted)


def _sign(sign: str) -> str:
    if sign == "\0":
        return "{}"
    replacement = _ESCAPES.get(sign) or _UNICODE.get(sign)
    if replacement is not None:
        return replacement
    letter, *marks = tuple(unicodedata.normalize("NFD", sign))
    if letter.isascii() and letter.isalpha() and len(marks) == 1 and marks[0] in _ACCENTS:
        base = f"\\{letter}" if letter in "ij" and marks[0] != "\u0327" else letter
        return f"\\{_ACCENTS[marks[0]]}{{{base}}}"
    return f"[U+{ord(sign):04X}]"
