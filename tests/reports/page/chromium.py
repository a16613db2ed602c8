"""A headless Chromium that speaks to nobody, and what it says of a page."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

__all__ = ["Page", "start"]

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)
SECONDS = 120.0


def start(profile: Path) -> Chrome:
    """Starts the system's Chromium; skips where there is none, and fails there in CI."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    programs = [browser, shutil.which("chromedriver")]
    if None in programs:
        reason = "no chromium (or google-chrome) with chromedriver: the browser tests did not run"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    options = ChromeOptions()
    options.binary_location = str(programs[0])
    for flag in (*FLAGS, f"--user-data-dir={profile}", "--window-size=1280,1000"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # The paths are given, so that Selenium's own manager never looks for a driver on the network.
    return Chrome(options=options, service=Service(executable_path=str(programs[1])))


class Page:
    """An open page, with what a reader does to it."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def open(
        self, path: Path, fragment: str = "", *, width: int = 1280, scheme: str = "light"
    ) -> Page:
        """Opens a file and waits until its items are there; forgets what earlier pages said."""
        self.driver.get("about:blank")
        self.driver.set_window_size(width, 1000)
        self.cdp(
            "Emulation.setEmulatedMedia",
            media="",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        for log in ("browser", "performance"):
            self.driver.get_log(log)  # type: ignore[no-untyped-call]
        self.driver.get(path.resolve().as_uri() + fragment)
        self.until(lambda: self.js("return document.documentElement.dataset.ready === 'yes'"))
        return self

    def cdp(self, command: str, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.driver.execute_cdp_cmd(command, arguments)
        return answer

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def until(self, holds: Callable[[], Any], seconds: float = SECONDS) -> Any:
        """Waits for something to hold; says what the console said if it never does."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = holds()
            if value:
                return value
            time.sleep(0.02)
        pytest.fail(f"waited {seconds} s in vain; the console says {self.console()}")

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def console(self) -> list[str]:
        log = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in log]

    def requests(self) -> list[str]:
        """Addresses that were asked for since the page was opened."""
        log = self.driver.get_log("performance")  # type: ignore[no-untyped-call]
        messages = [json.loads(entry["message"])["message"] for entry in log]
        sent = [message for message in messages if message["method"] == "Network.requestWillBeSent"]
        return [message["params"]["request"]["url"] for message in sent]

    def settled(self, act: Callable[[], Any]) -> None:
        """Does something that draws the list anew, and waits for it."""
        before = self.js("return state.drawn")
        act()
        self.until(lambda: self.js("return state.drawn > arguments[0]", before))
        self.js("return draw()")

    def choose(self, name: str, value: str) -> None:
        """Chooses an option by its words."""
        script = (
            "const s = byId(arguments[0]);"
            "s.value = [...s.options].find(o => o.text === arguments[1]).value;"
            "s.dispatchEvent(new Event('change', {bubbles: true}));"
        )
        self.settled(lambda: self.js(script, name, value))

    def sort(self, column: str) -> None:
        self.settled(lambda: self.js(f"document.querySelector('[data-sort={column}]').click()"))

    def cells(self, column: str) -> list[str]:
        """Returns what stands in a column of the page that is shown."""
        script = (
            "const at = columnsShown().findIndex(c => c.name === arguments[0]);"
            "return [...document.querySelectorAll('#rows > tr[data-row]')]"
            ".map(tr => (tr.children[at].querySelector('button') ?? tr.children[at]).innerText)"
        )
        texts: list[str] = self.js(script, column)
        return texts

    def rows(self) -> list[int]:
        """Returns all rows that the filters leave, in their order."""
        rows: list[int] = self.js("return [...state.shown]")
        return rows

    def open_item(self, place: int = 0) -> WebElement:
        """Opens an item of the page that is shown."""
        self.js("document.querySelectorAll('#rows button.item')[arguments[0]].click()", place)
        self.until(lambda: self.all(".detail-box .answers"))
        return self.one(".detail-box")
