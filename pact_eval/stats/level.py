"""The level at which results are called shown or significant."""

from typing import Final

LEVEL: Final = 0.05
"""Two-sided level of tests, and of intervals of 95%: chance alone reaches it once in 20 times."""
