"""Admits pods in an emergency, without a decision: the scheduler places these pods anywhere."""

from collections.abc import Iterator

from kube.api import ApiError
from kube.rest import RestApi
from placement.act import write
from placement.decide.cluster import display_name
from placement.observe.model import Pod
from placement.observe.names import names_of
from placement.observe.read import read_pod


def gated_pods(api: RestApi, job: str | None) -> Iterator[Pod]:
    """Yields the pods that have the gate, of one job (``namespace/name``, both not empty) or of all jobs."""
    namespace, _, name = (job or "").partition("/")
    for page in api.pages(f"/api/v1/namespaces/{namespace}/pods" if job else "/api/v1/pods"):
        for raw in page.get("items") or ():
            pod = read_pod(raw)
            if pod is None or not pod.gated:
                continue
            names = (name for _, name in names_of(raw["metadata"]))
            if job is None or name in (pod.job, display_name(pod.key).partition("/")[2], *names):
                yield pod


def admit(api: RestApi, pod: Pod) -> str:
    """Removes the gate of a pod. Returns the error; an empty text if there is none."""
    try:
        write.patch(api, pod, write.gate_removal(pod))
    except ApiError as error:
        return str(error)
    return ""
