"""What the manifests make, as the API server and the processes have it."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import TYPE_CHECKING

import pytest

from tests.cluster import nodes
from tests.cluster.install.installation import MUTATING, NAMESPACE, VALIDATING
from tests.cluster.jobs import template
from tests.helpers import mpijob
from tests.waiting import until

if TYPE_CHECKING:
    from tests.cluster.install.installation import Installation

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:"
ROLE = "training.kubeflow.org/job-role"


def test_the_document_shows_how_to_see_that_it_is_asked(installed: Installation) -> None:
    assert "ultraserver-webhook.io/added" in installed.run("docs/install.md", "Check that it is called")


def test_a_plain_job_lands_on_one_ultraserver_and_its_launcher_is_completed(installed: Installation) -> None:
    installed.team.apply(mpijob(4))
    pods = installed.team.wait_for(
        lambda found: len([pod for pod in found["items"] if pod["spec"].get("nodeName")]) == 5, "pods"
    )["items"]
    roles = [pod["metadata"]["labels"][ROLE] for pod in pods]
    labels = {
        node["metadata"]["name"]: node["metadata"]["labels"]
        for node in installed.kubectl.get_json("nodes")["items"]
    }
    workers = [pod for pod, role in zip(pods, roles, strict=True) if role == "worker"]
    assert len({labels[pod["spec"]["nodeName"]][nodes.SERVER_ID_4] for pod in workers}) == 1
    # The second webhook: a row for the launcher's Pod has the last word on the host file.
    main = pods[roles.index("launcher")]["spec"]["containers"][0]
    assert "/ultraserver-init" in json.dumps(main) or len(main["volumeMounts"]) > 2
    installed.team.run("delete", "mpijobs", "--all", "--wait=false")
    installed.team.run("delete", "pods", "--all", "--grace-period=0", "--force")


def test_the_autoscaler_keeps_two_replicas_without_a_metrics_server(installed: Installation) -> None:
    until(lambda: len(installed.pods()) == 2)
    # One a node, and jobs' nodes are left to jobs.
    assert {pod["spec"]["nodeName"] for pod in installed.pods()} == set(installed.control_plane.nodes)


@pytest.mark.parametrize("component", ["serving", "certificates"])
def test_a_process_is_nobody_and_may_do_nothing_on_its_node(component: str, installed: Installation) -> None:
    said = installed.inside(installed.pods(component)[0], "cat", "/proc/1/status")
    status = dict(line.split(":\t", 1) for line in said.splitlines())
    assert set(status["Uid"].split()) == {"65532"}
    assert (int(status["CapEff"], 16), int(status["CapBnd"], 16), status["NoNewPrivs"]) == (0, 0, "1")


def test_serving_pods_get_no_token_and_never_the_authoritys_key(installed: Installation) -> None:
    pods = installed.pods()
    assert pods
    for pod in pods:
        # A volume of a Secret, a ConfigMap or a token is links; tokens are mounted below /run.
        links = installed.inside(pod, "find", "/etc/ultraserver-webhook", "/run", "-type", "l").split()
        assert {PurePath(link).name for link in links} == {"tls.crt", "tls.key", "rules.yaml", "..data"}


@pytest.mark.parametrize(
    ("account", "asked", "answer"),
    [
        ("ultraserver-webhook", ("get", "secrets", "-n", NAMESPACE), "no"),
        ("ultraserver-webhook", ("get", "configmaps", "-n", NAMESPACE), "no"),
        ("ultraserver-webhook", ("list", "nodes"), "no"),
        ("ultraserver-webhook-certs", ("get", "secret/ultraserver-webhook-tls", "-n", NAMESPACE), "yes"),
        ("ultraserver-webhook-certs", ("list", "secrets", "-n", NAMESPACE), "no"),
        ("ultraserver-webhook-certs", ("get", "secret/other", "-n", NAMESPACE), "no"),
        ("ultraserver-webhook-certs", ("get", "secret/ultraserver-webhook-tls", "-n", "default"), "no"),
        ("ultraserver-webhook-certs", ("patch", "/".join(MUTATING)), "yes"),
        ("ultraserver-webhook-certs", ("delete", "/".join(MUTATING)), "no"),
        ("ultraserver-webhook-certs", ("patch", f"{VALIDATING[0]}/another"), "no"),
        ("ultraserver-webhook-certs", ("create", "pods", "-n", NAMESPACE), "no"),
    ],
)
def test_accounts_may_do_what_they_need_and_no_more(
    account: str, asked: tuple[str, ...], answer: str, installed: Installation
) -> None:
    done = installed.kubectl.run("auth", "can-i", *asked, f"--as={ACCOUNT}{account}", check=False)
    assert done.stdout.strip() == answer


def test_a_job_that_is_opted_out_is_asked_about_when_it_brings_what_was_added_before(
    installed: Installation,
) -> None:
    added = installed.team.create(mpijob(4), "--dry-run=server")
    added["metadata"] = {"name": "copy", "annotations": {"ultraserver-webhook.io/inject": "false"}}
    assert "nodeSelector" in template(added, "Worker")["spec"]
    assert installed.dry_run(job=added) == (False, "")


@pytest.mark.parametrize("namespace", ["kube-system", "kube-public", NAMESPACE])
def test_jobs_of_namespaces_that_are_left_out_stay_as_they_are(
    namespace: str, installed: Installation
) -> None:
    assert installed.dry_run(installed.kubectl.in_namespace(namespace)) == (False, "")


def test_applying_what_the_readme_says_again_changes_nothing(installed: Installation) -> None:
    before = bundles(installed)
    overlay = str(installed.folder / "manifests" / "overlays" / "eks")
    assert installed.kubectl.run("diff", "-k", overlay, check=False).stdout == ""
    # The base is the same as the overlay.
    installed.run("README.md", "ultraserver-webhook")
    assert len(before) == 1
    assert bundles(installed) == before
    assert installed.own.get_json("deployment", "ultraserver-webhook")["spec"]["replicas"] == 2


def bundles(installed: Installation) -> set[str]:
    found = [installed.kubectl.get_json(*name)["webhooks"] for name in (MUTATING, VALIDATING)]
    return {hook["clientConfig"]["caBundle"] for hooks in found for hook in hooks}
