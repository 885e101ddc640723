"""What a person does in the browser, and what they see."""

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


def ask(browser: Chrome, site: str, text: str) -> None:
    """Fills the field, asks, and waits for the page that comes back."""
    browser.get(site)
    field = browser.find_element(By.ID, "object")
    browser.execute_script(FILL, field, text)
    answered(browser, lambda: browser.find_element(By.CSS_SELECTOR, "button[type=submit]").click())


def answered(browser: Chrome, act: Callable[[], object]) -> None:
    """Acts, and waits until another page is loaded."""
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
    """Returns the browser's complaints since the last call: script errors, and reports of the CSP."""
    return [
        entry["message"] for entry in browser.get_log("browser") if entry["level"] in {"SEVERE", "WARNING"}
    ]
