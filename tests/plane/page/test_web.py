"""Tests of the page behind the API server's service proxy, and of ``kubectl ultraserver preview --web``."""

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
from testbed.plane.plugin import account, plugin, preview_page
from testbed.plane.previews import NAME, run_preview_service, wait_until_served
from testbed.waiting import until
from tests.docs.blocks import blocks_of
from tests.plane.page.person import EXAMPLE, PLACED, console, sentences, submit, wait_for_page

PATH = f"/api/v1/namespaces/{chart.NAME}/services/{NAME}:http/proxy/"


@pytest.fixture(scope="module")
def served(control_plane: ControlPlane, passed_on: None) -> Iterator[Kubectl]:
    """An administrator's kubectl in the namespace of an installation, where the preview service runs."""
    assert passed_on is None
    with run_preview_service(control_plane, chart.NAME) as inside:
        wait_until_served(inside)
        yield inside


@pytest.fixture
def proxied(served: Kubectl) -> Iterator[str]:
    """The address of the page behind ``kubectl proxy`` and the API server's service proxy."""
    command = [str(served.binary), "--kubeconfig", str(served.kubeconfig), "proxy", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield f"http://{process.stdout.readline().split()[-1]}{PATH}"
        process.terminate()


def click(browser: Chrome, link: str) -> None:
    """Clicks the link with this text, and waits for the page."""
    wait_for_page(browser, lambda: browser.find_element(By.LINK_TEXT, link).click())


def test_the_page_works_under_the_path_of_the_service_proxy(browser: Chrome, proxied: str) -> None:
    """Protects links, forms, style and script from paths that lead out of the prefix."""
    submit(browser, proxied, EXAMPLE)
    assert sentences(browser) == [PLACED]
    assert browser.find_element(By.ID, "object").get_property("value").strip() == EXAMPLE.strip()
    assert browser.execute_script("return document.styleSheets[0].cssRules.length")
    assert browser.find_elements(By.CSS_SELECTOR, "details button"), "the script adds the buttons to copy"
    click(browser, "Show an example")
    assert sentences(browser) == [PLACED]
    assert browser.current_url == f"{proxied}?example"
    submit(browser, proxied, "kind: [")
    assert sentences(browser)[0].startswith("object:2:1:")
    assert browser.current_url == proxied
    assert [line for line in console(browser) if "status of 400" not in line] == []


def test_web_shows_the_page_to_one_browser(browser: Chrome, served: Kubectl) -> None:
    """Protects the documented command: its address works once, and the whole page works."""
    with preview_page(served) as address:
        browser.get(address)
        assert browser.current_url == address.partition("?")[0]
        submit(browser, browser.current_url, EXAMPLE)
        assert sentences(browser) == [PLACED]
        click(browser, "Show an example")
        assert sentences(browser) == [PLACED]
        assert browser.execute_script("return document.cookie") == ""
        assert console(browser) == []
        browser.get(address)
        assert "this address works only once" in browser.find_element(By.TAG_NAME, "body").text
        assert any("status of 403" in line for line in console(browser))


def test_web_needs_only_the_right_that_the_document_grants(
    browser: Chrome, served: Kubectl, tmp_path: Path
) -> None:
    """Protects previews from users without the documented right, whom the API server refuses."""
    kubeconfig = account(served, "ada", tmp_path)
    result = plugin(served, "preview", "--web", kubeconfig=kubeconfig)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(
        f'error: the API server answers 403: services "{NAME}:http" is forbidden: '
    )
    assert result.stderr.endswith("; an administrator can give you the Role of docs/preview.md\n")
    (role,) = [block for block in blocks_of("docs/preview.md") if block.file == "previews.yaml"]
    served.apply(role.text)
    subject = f"--serviceaccount={served.namespace}:ada"
    served.run("create", "rolebinding", "ada", "--role=ultraserver-previews", subject)
    until(lambda: _may_open_page(served, "ada"), "the right to open the page")
    with preview_page(served, kubeconfig) as address:
        browser.get(address)
        submit(browser, browser.current_url, EXAMPLE)
        assert sentences(browser) == [PLACED]


def _may_open_page(served: Kubectl, name: str) -> bool:
    user = served.acting_as(f"system:serviceaccount:{served.namespace}:{name}")
    return user.api.send("GET", PATH, None)[0] != HTTPStatus.FORBIDDEN
