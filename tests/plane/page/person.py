"""Functions that act on the page like a person, and read what the page shows."""

from collections.abc import Callable
from typing import Any

from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from testbed import chart

PLACED = (
    "placed: 4 workers on one whole UltraServer, shared with no other job; "
    "the job waits until all 4 nodes are free"
)
EXAMPLE = (chart.REPOSITORY / "examples" / "four-node.yaml").read_text(encoding="utf-8")
FILL = "arguments[0].value = arguments[1]"
DROP = """
const transfer = new DataTransfer();
transfer.items.add(new File([arguments[1]], "job.yaml"));
arguments[0].dispatchEvent(new DragEvent("drop", {dataTransfer: transfer, bubbles: true, cancelable: true}));
"""


def submit(browser: Chrome, site: str, text: str) -> None:
    """Fills the field, submits the form, and waits for the page with the answer."""
    browser.get(site)
    field = browser.find_element(By.ID, "object")
    browser.execute_script(FILL, field, text)
    wait_for_page(browser, lambda: browser.find_element(By.CSS_SELECTOR, "button[type=submit]").click())


def wait_for_page(browser: Chrome, act: Callable[[], object]) -> None:
    """Runs an action that loads another page, and waits until this page is loaded."""
    before = browser.find_element(By.TAG_NAME, "html")
    act()
    WebDriverWait(browser, 10).until(lambda _: browser.find_element(By.TAG_NAME, "html") != before)
    WebDriverWait(browser, 10).until(
        lambda _: browser.execute_script("return document.readyState") == "complete"
    )


def press(browser: Chrome, key: str) -> None:
    """Presses a key, wherever the focus is."""
    ActionChains(browser).send_keys(key).perform()


def sentences(browser: Chrome) -> list[str]:
    return [element.text for element in browser.find_elements(By.CSS_SELECTOR, ".sentence, .error")]


def console(browser: Chrome) -> list[Any]:
    """Returns the errors and warnings in the console since the last call, such as script errors."""
    return [
        entry["message"] for entry in browser.get_log("browser") if entry["level"] in {"SEVERE", "WARNING"}
    ]
