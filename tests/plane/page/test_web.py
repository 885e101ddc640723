"""The page behind the real API server: by its service proxy, and by ``kubectl ultraserver preview --web``."""

import subprocess
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from testbed import chart
from testbed.plane.controlplane import ControlPlane
from testbed.plane.kubectl import Kubectl
from testbed.plane.plugin import account, page, plugin
from testbed.plane.previews import NAME, previews, wait_until_served
from testbed.waiting import until
from tests.docs.blocks import blocks_of
from tests.plane.page.person import EXAMPLE, PLACED, answered, ask, console, sentences

PATH = f"/api/v1/namespaces/{chart.NAME}/services/{NAME}:http/proxy/"


@pytest.fixture(scope="module")
def served(control_plane: ControlPlane, passed_on: None) -> Iterator[Kubectl]:
    """Kubectl of an administrator in the namespace of an installation, with its previews."""
    assert passed_on is None
    with previews(control_plane, chart.NAME) as inside:
        wait_until_served(inside)
        yield inside


@pytest.fixture
def proxied(served: Kubectl) -> Iterator[str]:
    """The address of the page by ``kubectl proxy`` and the API server's service proxy."""
    command = [str(served.binary), "--kubeconfig", str(served.kubeconfig), "proxy", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield f"http://{process.stdout.readline().split()[-1]}{PATH}"
        process.terminate()


def click(browser: Chrome, link: str) -> None:
    """Follows a link by its text."""
    answered(browser, lambda: browser.find_element(By.LINK_TEXT, link).click())


def test_the_page_works_under_the_path_of_the_service_proxy(browser: Chrome, proxied: str) -> None:
    """Protects links, forms, style and script from paths that lead out of the prefix."""
    ask(browser, proxied, EXAMPLE)
    assert sentences(browser) == [PLACED]
    assert browser.find_element(By.ID, "object").get_property("value").strip() == EXAMPLE.strip()
    assert browser.execute_script("return document.styleSheets[0].cssRules.length")
    assert browser.find_elements(By.CSS_SELECTOR, "details button"), "the script adds buttons that copy"
    click(browser, "Show an example")
    assert sentences(browser) == [PLACED]
    assert browser.current_url == f"{proxied}?example"
    ask(browser, proxied, "kind: [")
    assert sentences(browser)[0].startswith("object:2:1:")
    assert browser.current_url == proxied
    assert [line for line in console(browser) if "status of 400" not in line] == []


def test_web_shows_the_page_to_one_browser(browser: Chrome, served: Kubectl) -> None:
    """Protects the documented way: the address works once, and the whole page works behind it."""
    with page(served) as address:
        browser.get(address)
        assert browser.current_url == address.partition("?")[0]
        ask(browser, browser.current_url, EXAMPLE)
        assert sentences(browser) == [PLACED]
        click(browser, "Show an example")
        assert sentences(browser) == [PLACED]
        assert browser.execute_script("return document.cookie") == ""
        assert console(browser) == []
        browser.get(address)
        assert "this address works only once" in browser.find_element(By.TAG_NAME, "body").text
        assert any("status of 403" in line for line in console(browser))


def test_web_needs_the_right_of_the_document_and_no_other(
    browser: Chrome, served: Kubectl, tmp_path: Path
) -> None:
    """Protects previews from people without the right; the real API server refuses them."""
    person = account(served, "ada", tmp_path)
    done = plugin(served, "preview", "--web", kubeconfig=person)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f'error: the API server answers 403: services "{NAME}:http" is forbidden: ')
    assert done.stderr.endswith("; an administrator can give you the Role of docs/preview.md\n")
    (role,) = [block for block in blocks_of("docs/preview.md") if block.file == "previews.yaml"]
    served.apply(role.text)
    who = f"--serviceaccount={served.namespace}:ada"
    served.run("create", "rolebinding", "ada", "--role=ultraserver-previews", who)
    until(lambda: _may(served, "ada"), "the right")
    with page(served, person) as address:
        browser.get(address)
        ask(browser, browser.current_url, EXAMPLE)
        assert sentences(browser) == [PLACED]


def _may(served: Kubectl, name: str) -> bool:
    user = served.acting_as(f"system:serviceaccount:{served.namespace}:{name}")
    return user.api.send("GET", PATH, None)[0] != HTTPStatus.FORBIDDEN
