"""Tests of the page in a real browser, with ordinary and with hostile texts."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from axe_core_python.selenium import Axe
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By

from testbed.mpijob import mpijob
from tests.plane.page.person import (
    DROP,
    EXAMPLE,
    FILL,
    PLACED,
    console,
    press,
    sentences,
    submit,
    wait_for_page,
)
from tests.rules.documented import documented_job
from tests.t9k import t9k_mpijob
from webhook.documents import dump_yaml


def violations(browser: Chrome) -> list[tuple[str, Any]]:
    return [
        (violation["id"], violation["nodes"][0]["html"]) for violation in Axe().run(browser)["violations"]
    ]


def test_the_page_explains_a_pasted_job(browser: Chrome, site: str, pictures: Path) -> None:
    """Protects new users: the answer has a sentence, a picture, and a diff with rules."""
    submit(browser, site, EXAMPLE)
    assert sentences(browser) == [PLACED]
    assert len(browser.find_elements(By.CSS_SELECTOR, "svg .worker")) == 4
    rows = browser.find_elements(By.CSS_SELECTOR, "tr.added")
    result = {row.text.strip() for row in rows}
    assert "ultraserver-nodes + nodeSelector:" in {" ".join(text.split()) for text in result}
    assert violations(browser) == []
    assert console(browser) == []
    browser.save_screenshot(str(pictures / "page.png"))


DOCUMENTED_JOBS: dict[str, tuple[Any, str]] = {
    "AWS's job of 2 nodes": (documented_job(2), "placed: 2 workers on one pair of nodes of an UltraServer"),
    "AWS's job of 4 nodes": (documented_job(4), "placed: 4 workers on one whole UltraServer"),
    "AWS's job of 16 nodes": (
        documented_job(16),
        "placed: 16 workers in blocks of 4 on 4 whole UltraServers",
    ),
    "T9k's job": (t9k_mpijob("worker"), "placed: if the chart has the value `kinds: [mpijobs.v1beta1.batch"),
}


@pytest.mark.parametrize("name", DOCUMENTED_JOBS)
def test_the_page_explains_the_jobs_of_the_documents(browser: Chrome, site: str, name: str) -> None:
    """Protects a user who pastes a document's job or drops its file: both get the same sentence."""
    job, beginning = DOCUMENTED_JOBS[name]
    submit(browser, site, dump_yaml(job))
    (pasted,) = sentences(browser)
    browser.get(site)
    field = browser.find_element(By.ID, "object")
    wait_for_page(browser, lambda: browser.execute_script(DROP, field, dump_yaml(job)))
    assert sentences(browser) == [pasted]
    assert pasted.startswith(beginning)


def test_the_page_can_be_used_with_the_keyboard_alone(browser: Chrome, site: str) -> None:
    """Tab reaches the field and then the button, and Enter submits the form."""
    browser.get(site)
    press(browser, Keys.TAB)
    assert browser.switch_to.active_element.get_attribute("id") == "object"
    browser.execute_script(FILL, browser.switch_to.active_element, EXAMPLE)
    for _ in range(10):
        press(browser, Keys.TAB)
        if browser.switch_to.active_element.get_attribute("type") == "submit":
            break
    wait_for_page(browser, lambda: press(browser, Keys.ENTER))
    assert sentences(browser) == [PLACED]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone(browser: Chrome, site: str, scheme: str, pictures: Path) -> None:
    """At a width of 320 px, the page does not scroll sideways. Both color schemes have enough contrast."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    narrow = {"width": 320, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    try:
        submit(browser, site, EXAMPLE)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 320
        code = browser.find_element(By.CSS_SELECTOR, ".added code")
        assert code.rect["x"] < 32, "the code is below the rule's name"
        assert violations(browser) == []
        browser.save_screenshot(str(pictures / f"page-320-{scheme}.png"))
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


HOSTILE = {
    "markup in a name": dump_yaml(mpijob(4, name="<img src=x onerror=alert(1)>")),
    "the end tag of the field": f"# </textarea><script>document.title='fell'</script>\n{EXAMPLE}",
    "markup in a value": EXAMPLE.replace("default", "\"</pre><script>document.title='fell'</script>\""),
    "bidirectional controls": f"# \u202e\u2066 reversed\n{EXAMPLE}",
    "nested aliases of YAML": "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b]\n",
    "binary data": "\x00\x01\x02PNG",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_does_not_become_markup(browser: Chrome, site: str, text: str) -> None:
    """Protects a person who opens another user's file: nothing in the file becomes markup of the page."""
    submit(browser, site, text)
    assert sentences(browser)
    assert browser.title != "fell"
    assert not browser.find_elements(By.CSS_SELECTOR, "article img, article script, form script")
    assert [line for line in console(browser) if "status of 400" not in line] == []


@pytest.mark.parametrize(
    "line", [f"# {'x' * 97}\n", "#a\n", "\n"], ids=["long lines", "short lines", "empty lines"]
)
def test_the_largest_text_is_answered(browser: Chrome, site: str, line: str) -> None:
    """Protects users from a slow page: a field with 1 MiB of short lines once took 13 s to show."""
    browser.get(site)
    text = EXAMPLE + line * ((1024 * 1024 - len(EXAMPLE)) // len(line))
    field = browser.find_element(By.ID, "object")
    wait_for_page(browser, lambda: browser.execute_script(DROP, field, text))
    assert sentences(browser) == [PLACED]
    assert browser.execute_script("return performance.getEntriesByType('navigation')[0].duration") < 3000


def test_another_site_cannot_show_the_page_in_a_frame(browser: Chrome, site: str, tmp_path: Path) -> None:
    """Protects users from clickjacking: another site must not hide this page below its own buttons."""
    (tmp_path / "plain.html").write_text("plain", encoding="utf-8")
    serve = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        frames = [f"http://127.0.0.1:{other.server_port}/plain.html", site]
        text = "".join(f"<iframe src='{address}'></iframe>" for address in frames)
        (tmp_path / "index.html").write_text(f"<!doctype html>{text}", encoding="utf-8")
        browser.get(f"http://localhost:{other.server_port}/")
        shown = []
        for frame in browser.find_elements(By.TAG_NAME, "iframe"):
            browser.switch_to.frame(frame)
            shown.append(browser.execute_script("return location.href"))
            browser.switch_to.default_content()
        other.shutdown()
    assert shown == [frames[0], "chrome-error://chromewebdata/"]
    assert any("frame-ancestors" in line for line in console(browser))
