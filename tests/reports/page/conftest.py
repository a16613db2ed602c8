"""One browser for all tests of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from reports.page.chromium import Page, start
from selenium.webdriver import Chrome


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    driver = start(tmp_path_factory.mktemp("chromium"))
    yield driver
    driver.quit()


@pytest.fixture
def page(chromium: Chrome) -> Page:
    return Page(chromium)
