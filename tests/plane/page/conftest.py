"""Fixtures: the page of `ultraserver-webhook serve-preview`, and Debian's chromium."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

from testbed import chart
from testbed.plane.controlplane import answers_ok
from testbed.plane.process import Programs, free_ports


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the page."""
    (port,) = free_ports(1)
    command = [
        sys.executable,
        "-m",
        "webhook",
        "serve-preview",
        "--port",
        str(port),
        "--log-level",
        "warning",
    ]
    with Programs(tmp_path_factory.mktemp("page")) as programs:
        program = programs.start("page", command, cwd=chart.REPOSITORY)
        program.wait_ready(lambda: answers_ok(f"http://127.0.0.1:{port}/readyz"), 20)
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="package")
def browser() -> Iterator[Chrome]:
    """A headless browser that records its console."""
    options = ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options, ChromeService("/usr/bin/chromedriver"))
    driver.set_window_size(1000, 1200)
    yield driver
    driver.quit()


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """The folder for screenshots: the value of the environment variable SCREENSHOTS, or the test's folder."""
    folder = Path(os.environ.get("SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
