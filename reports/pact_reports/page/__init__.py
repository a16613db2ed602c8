"""One HTML page of runs: a single file that works offline, from a mail attachment too.

Summary, figures and tables are plain HTML that Python writes; only the item browser needs a script.
"""

from pact_reports.page.assembly import make_page, write_page
from pact_reports.page.dataset import ItemRecords, read_item_records
from pact_reports.page.request import PageRequest

__all__ = ["ItemRecords", "PageRequest", "make_page", "read_item_records", "write_page"]
