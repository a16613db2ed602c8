"""One HTML page of runs: a single file that works offline, also as a mail attachment.

Python writes summary, figures and tables as plain HTML. Only the item browser needs a script.
"""

from pact_reports.page.assembly import make_page, write_page
from pact_reports.page.request import PageRequest

__all__ = [
    "PageRequest",
    "make_page",
    "write_page",
]
