"""Tests of an installation: its objects in the API server, its processes, and the rights of its accounts."""

from pathlib import PurePath
from urllib.request import HTTPCookieProcessor, build_opener

import pytest
import yaml

from testbed.plane.plugin import preview_page
from tests.nodes.install.installation import INSTALL, MUTATING, NAMESPACE, SERVING, VALIDATING, Installation
from tests.nodes.replicas import REPLICAS, ready

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:"
RIGHTS: dict[str, dict[tuple[str, ...], str]] = {
    "ultraserver-webhook": {
        ("get", "secrets", "-n", NAMESPACE): "no",
        ("get", "configmaps", "-n", NAMESPACE): "no",
        ("list", "nodes"): "no",
    },
    "ultraserver-webhook-certs": {
        ("get", "secret/ultraserver-webhook-tls", "-n", NAMESPACE): "yes",
        ("list", "secrets", "-n", NAMESPACE): "no",
        ("get", "secret/other", "-n", NAMESPACE): "no",
        ("get", "secret/ultraserver-webhook-tls", "-n", "default"): "no",
        ("patch", "/".join(MUTATING)): "yes",
        ("delete", "/".join(MUTATING)): "no",
        ("patch", f"{VALIDATING[0]}/another"): "no",
        ("create", "pods", "-n", NAMESPACE): "no",
    },
    "ultraserver-placement": {
        ("patch", "pods", "-n", "default"): "yes",
        ("create", "pods", "-n", "default"): "no",
        ("get", "secrets", "-n", NAMESPACE): "no",
    },
}


def test_the_document_shows_how_to_see_what_will_be_installed(installed: Installation) -> None:
    installed.run(INSTALL, "See what will be installed")
    rendered = (installed.folder / "rendered.yaml").read_text(encoding="utf-8")
    objects = [obj for obj in yaml.safe_load_all(rendered) if obj]
    names = {obj["metadata"]["name"] for obj in objects if obj["kind"] == "Deployment"}
    assert {item["metadata"]["name"] for item in installed.own.get_json("deployments")["items"]} == names


def test_the_document_shows_how_to_see_that_it_is_called(installed: Installation) -> None:
    assert "ultraserver-webhook.io/added" in installed.run(INSTALL, "Check that it is called")


def test_the_autoscaler_keeps_two_replicas_without_a_metrics_server(installed: Installation) -> None:
    pods = installed.own.wait_for(lambda obj: sum(map(ready, obj["items"])) == REPLICAS, *SERVING)
    # Each real node has one replica. The nodes of jobs have none.
    assert {pod["spec"]["nodeName"] for pod in pods["items"]} == set(installed.control_plane.nodes)


@pytest.mark.parametrize("component", ["serving", "certificates", "placement", "preview"])
def test_a_process_runs_as_an_unprivileged_user_without_rights_on_its_node(
    component: str, installed: Installation
) -> None:
    pod = installed.pods(component)[0]
    value = installed.run_in_pod(pod, "cat", "/proc/1/status")
    status = dict(line.split(":\t", 1) for line in value.splitlines())
    assert set(status["Uid"].split()) == {"65532"}
    assert (int(status["CapEff"], 16), int(status["CapBnd"], 16), status["NoNewPrivs"]) == (0, 0, "1")
    touch = ("exec", pod["metadata"]["name"], "--", "touch", "/opt/x")
    assert "Read-only file system" in installed.own.run(*touch, check=False).stderr


def test_users_open_the_page_of_the_installed_preview_service(installed: Installation) -> None:
    """Protects the way from the plugin through the API server's service proxy to a Pod on a real node."""
    installed.own.run("rollout", "status", "deployment/ultraserver-webhook-preview")
    with preview_page(installed.own) as address:
        browser = build_opener(HTTPCookieProcessor())
        assert b"What will happen to this job?" in browser.open(address).read()
        shown = browser.open(f"{address.partition('?')[0]}?example", data=b"").read()
        assert b"placed: 4 workers on one whole UltraServer" in shown


def test_serving_pods_have_neither_a_token_nor_the_key_of_the_authority(installed: Installation) -> None:
    pods = installed.pods()
    assert pods
    for pod in pods:
        # The volume of a Secret, a ConfigMap or a token has a link per file. Tokens are mounted below /run.
        links = installed.run_in_pod(pod, "find", "/etc/ultraserver-webhook", "/run", "-type", "l").split()
        assert {PurePath(link).name for link in links} == {
            *("tls.crt", "tls.key", "rules.yaml", "30-placement.yaml", "..data")
        }


@pytest.mark.parametrize("account", RIGHTS)
def test_an_account_may_do_what_it_needs_and_no_more(account: str, installed: Installation) -> None:
    def can_i(*request: str) -> str:
        output = installed.kubectl.run("auth", "can-i", *request, f"--as={ACCOUNT}{account}", check=False)
        return output.stdout.strip()

    assert {request: can_i(*request) for request in RIGHTS[account]} == RIGHTS[account]


@pytest.mark.parametrize("namespace", ["kube-system", "kube-public", NAMESPACE])
def test_jobs_in_excluded_namespaces_are_not_changed(namespace: str, installed: Installation) -> None:
    assert installed.dry_run(namespace) == (False, "")


def test_running_the_readmes_installation_command_again_changes_nothing(installed: Installation) -> None:
    def generations() -> dict[str, int]:
        deployments = installed.own.get_json("deployments")["items"]
        deployments += [installed.kubectl.get_json(*name) for name in (MUTATING, VALIDATING)]
        return {item["metadata"]["uid"]: item["metadata"]["generation"] for item in deployments}

    bundles, before = installed.ca_bundles(), generations()
    installed.run("README.md", "Install")
    assert len(bundles) == 1
    assert installed.ca_bundles() == bundles
    assert generations() == before
    assert installed.own.get_json("deployment", "ultraserver-webhook")["spec"]["replicas"] == REPLICAS
