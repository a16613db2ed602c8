"""One browser for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from reports.page.chromium import Page, start
from selenium.webdriver import Chrome

FAST = "test_no_error_and_no_request_but_the_file"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use the browser as slow; one page is opened in `make test` too."""
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()) and item.name != FAST:
            item.add_marker("slow")


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    driver = start(tmp_path_factory.mktemp("chromium"))
    yield driver
    driver.quit()


@pytest.fixture
def page(chromium: Chrome) -> Page:
    return Page(chromium)
