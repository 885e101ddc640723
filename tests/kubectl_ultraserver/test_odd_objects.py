"""Tests that objects with unexpected values, for example of another API version, cause no exception."""

from hypothesis import given
from hypothesis import strategies as st

from kube.api import Object
from kubectl_ultraserver.findings import Finding
from kubectl_ultraserver.terminal import explanation_lines
from kubectl_ultraserver.verify import verify
from kubectl_ultraserver.why import why
from tests.helpers import examples
from tests.kubectl_ultraserver.build import NAMESPACE, job_case, pod, stored_job, with_installation, workers

WORDS = st.sampled_from(
    [
        *("conditions", "type", "status", "reason", "message", "Failed", "True", "False", "QuotaReserved"),
        *("spec", "queueName", "trn2u", "clusterQueue", "resourceGroups", "flavors", "admissionChecks"),
        *("state", "suspend", "Admitted", "metadata", "ownerReferences", "uid-of-train", "name", "train"),
        *("runPolicy", "resources"),
    ]
)
ANY_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.text(max_size=5) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=25,
)
MAPS = st.dictionaries(WORDS, ANY_VALUE, max_size=5)


@examples(15)
@given(MAPS, st.lists(MAPS, max_size=2), MAPS, MAPS, st.lists(MAPS, max_size=2), ANY_VALUE, st.booleans())
def test_why_returns_findings_for_any_kueue_objects_and_status(  # noqa: PLR0913, PLR0917
    status: Object,
    workloads: list[Object],
    lease: Object,
    namespace_object: Object,
    events: list[Object],
    policy: object,
    has_kueue: bool,  # noqa: FBT001
) -> None:
    job = stored_job(runPolicy=policy)
    job["status"] = status
    owner = {"metadata": {"ownerReferences": [{"uid": "uid-of-train"}]}}
    findings = why(
        with_installation(
            job_case(workers("train", 4)[:2], job=job),
            workloads=tuple(item | owner for item in workloads),
            events=tuple(events),
            lease=lease,
            namespace_object=namespace_object,
            has_kueue=has_kueue,
        )
    )
    assert all(isinstance(finding, Finding) for finding in findings)
    assert list(explanation_lines("train", findings, "", {}))


@examples(15)
@given(
    st.sampled_from(["1", "2", "4", "3", "", "x"]),
    st.sampled_from(["0", "3", "99999", "-1", "x", ""]),
    st.lists(st.sampled_from(["n1-0", "n1-1", "n2-3", "gone", ""]), max_size=5),
    st.booleans(),
)
def test_verify_and_why_return_a_result_for_any_pods(
    config: str,
    index: str,
    nodes: list[str],
    has_object: bool,  # noqa: FBT001
) -> None:
    pods = []
    for number, node in enumerate(nodes):
        worker = pod(f"train-worker-{number}", "train", "worker", **({"nodeName": node} if node else {}))
        worker["metadata"]["labels"]["training.kubeflow.org/replica-index"] = index
        worker["metadata"]["annotations"] = {
            "ultraserver-webhook.io/node-config": config,
            "ultraserver-webhook.io/place": f"placer=gate workers={index} size={config} unit=rack index=name",
        }
        pods.append(worker)
    result = job_case(pods, job=stored_job() if has_object else None)
    assert result.namespace == NAMESPACE
    assert len(verify(result).rows) == len(pods)
    assert isinstance(why(with_installation(result)), list)
