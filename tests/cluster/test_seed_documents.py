"""The UltraServer document's own YAML, stripped of what people are to add, comes back from the webhook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster import jobs
from tests.cluster.jobs import template, without_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.controlplane import ControlPlane
    from tests.cluster.kubectl import Kubectl
    from tests.cluster.webhook import RunningWebhook

DOCUMENTS = ("two-node", "four-node", "multi-node")
AS_DOCUMENTED = """
apiVersion: ultraserver-webhook.io/v1alpha1
kind: RuleTable
extends: default
values:
  initImage: 123456789012.dkr.ecr.us-west-2.amazonaws.com/ultraserver:init-container
rules:
  - {name: wait-for-all-workers, mode: "off"}
  - {name: init-in-job-image, mode: "off"}
  - {name: hostfile-for-launcher, mode: "off"}
  - {name: job-label, mode: "off"}
  - {name: apart-across-namespaces, mode: "off"}
  - {name: nodes-with-server-id, mode: "off"}
  - {name: blocks, mode: "off"}
"""


@pytest.fixture(scope="module")
def documented(control_plane: ControlPlane) -> Iterator[Kubectl]:
    """A namespace whose webhook has the rows beyond the document switched off."""
    with jobs.second_webhook(control_plane, "as-documented", AS_DOCUMENTED) as inside:
        yield inside


def all_templates(stored: dict[str, Any]) -> dict[tuple[str, str], Any]:
    return {
        (job["metadata"]["name"], role): template(job, role)
        for job in stored["items"]
        for role in ("Launcher", "Worker")
    }


def test_the_stripped_documents_are_reproduced_to_the_letter_without_the_hardening_rows(
    documented: Kubectl, plain_namespace: Kubectl, registered_webhook: RunningWebhook
) -> None:
    assert registered_webhook.url
    wholes = [jobs.document(name) for name in DOCUMENTS]
    written = plain_namespace.apply(jobs.together(*wholes), "--dry-run=server")
    stored = documented.apply(jobs.together(*map(jobs.stripped, wholes)))
    assert {key: without_record(found) for key, found in all_templates(stored).items()} == all_templates(
        written
    )


def test_the_packaged_table_adds_every_term_of_the_documents(
    registered_webhook: RunningWebhook, namespace: Kubectl
) -> None:
    assert registered_webhook.url
    for name in DOCUMENTS:
        whole = jobs.document(name)
        stored = namespace.apply(jobs.stripped(whole), "--dry-run=server")
        theirs, ours = template(whole, "Worker")["spec"], template(stored, "Worker")["spec"]
        assert ours["nodeSelector"] == theirs["nodeSelector"]
        for kind, modes in theirs["affinity"].items():
            for mode, terms in modes.items():
                assert ours["affinity"][kind][mode][: len(terms)] == terms
        theirs, ours = template(whole, "Launcher")["spec"], template(stored, "Launcher")["spec"]
        assert ours["volumes"] == theirs["volumes"]
        for before, after in zip(theirs["initContainers"], ours["initContainers"], strict=True):
            assert after["name"] == before["name"]
            assert after["volumeMounts"] == before["volumeMounts"]
            # The image and the command are what the hardening rows are about.
            assert all(variable in after["env"] for variable in before.get("env", ()))


def test_a_job_that_has_the_documents_terms_already_gets_only_what_it_lacks(
    registered_webhook: RunningWebhook, namespace: Kubectl
) -> None:
    assert registered_webhook.url
    for name in DOCUMENTS:
        whole = jobs.document(name)
        by_webhook = template(namespace.apply(jobs.stripped(whole), "--dry-run=server"), "Worker")
        stored = namespace.apply(whole, "--dry-run=server")
        assert template(stored, "Worker")["spec"] == by_webhook["spec"]
        launcher = template(stored, "Launcher")["spec"]
        assert launcher == template(whole, "Launcher")["spec"]
