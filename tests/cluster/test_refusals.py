"""What a person reads when a job cannot be, or is not what they may think."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster import jobs
from tests.cluster.jobs import template
from tests.cluster.webhook import NAME, qualified
from tests.helpers import IMAGE, mpijob
from webhook.engine import keys

if TYPE_CHECKING:
    from tests.cluster.kubectl import Kubectl, Object

pytestmark = pytest.mark.usefixtures("registered_webhook")

NODE_CONFIG = f"/metadata/annotations/{keys.NODE_CONFIG}"
INJECT = f"/metadata/annotations/{keys.INJECT}"
ENV = {"name": "NEURON_ULTRASERVER_NODE_CONFIG", "value": "4"}
OWN_ENV = {"containers": [{"name": "mpitest", "image": IMAGE, "env": [ENV]}]}
FIX = "it takes 4 or multiple of 4 workers; change the number of workers, or use node config 2, 1"
VERBS = [("apply",), ("apply", "--server-side"), ("create",), ("create", "--dry-run=server")]
REFUSED = {
    "a node config that the number of workers does not fit": (
        mpijob(6, annotations={keys.NODE_CONFIG: "4"}),
        f'{NODE_CONFIG} is "4", but 6 workers do not fit it: {FIX}',
    ),
    "a node config that there is not": (
        mpijob(4, annotations={keys.NODE_CONFIG: "3"}),
        f'{NODE_CONFIG} is "3": the node config must be one of 4, 2, 1',
    ),
    "an opt-in that is neither yes nor no": (
        mpijob(4, annotations={keys.INJECT: "maybe"}),
        f'{INJECT} is "maybe": use "true" to opt in, "false" to opt out, or remove it',
    ),
    "a node config in the job's own environment that does not fit": (
        mpijob(2, launcher_spec=OWN_ENV),
        f"env {ENV['name']} of container 'mpitest' is \"4\", but 2 workers do not fit it: {FIX}",
    ),
}


@pytest.mark.parametrize(("job", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_job_that_cannot_be_is_refused_with_the_field_the_value_and_the_fix(
    job: Object, message: str, namespace: Kubectl
) -> None:
    for verb in VERBS:
        done = namespace.run(*verb, "-f", "-", stdin=jobs.text(job), check=False)
        assert done.returncode == 1
        assert f'admission webhook "{qualified(NAME)}" denied the request: {message}\n' in done.stderr
    assert namespace.get_json("mpijobs")["items"] == []


def test_workers_that_form_no_pairs_are_warned_about_and_admitted(namespace: Kubectl) -> None:
    done = namespace.run("apply", "-f", "-", stdin=jobs.text(mpijob(3)))
    warning = "3 nodes form no pairs: each works alone, with node config 1"
    assert done.stderr == f"Warning: {warning}; for NeuronLink between nodes use 2 or a multiple of 4\n"
    assert namespace.get_json("mpijob", "train")


def test_nobody_is_warned_about_a_job_that_is_as_it_should_be(namespace: Kubectl) -> None:
    plain = jobs.together(*(mpijob(workers) for workers in (1, 2, 4, 6, 16)))
    done = namespace.run("create", "--dry-run=server", "-f", "-", stdin=jobs.text(plain))
    assert done.stderr == ""


def test_a_field_of_a_wrong_type_is_refused_by_its_name(namespace: Kubectl) -> None:
    job = mpijob(4)
    template(job, "Worker")["spec"]["nodeSelector"] = ["trn2u.48xlarge"]
    done = namespace.run("create", "--validate=false", "-f", "-", stdin=jobs.text(job), check=False)
    assert done.returncode == 1
    where = "/spec/mpiReplicaSpecs/Worker/template/spec/nodeSelector"
    assert f'denied the request: {where} must be a map, not ["trn2u.48xlarge"]\n' in done.stderr
