"""Letting pods through by hand, when the program cannot or shall not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube.api import ApiError
from placement import write
from placement.cluster import shown
from placement.names import names_of
from placement.read import read_pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube.client import KubernetesApi
    from placement.model import Pod


def open_by_hand(api: KubernetesApi, job: str | None) -> tuple[list[str], list[str]]:
    """Take the gate off pods, without a pin.

    Args:
        api: The API server.
        job: Namespace, and name or job label; None for every job.

    Returns:
        A line for each pod that was opened, and one for each that could not be.

    Raises:
        ApiError: The pods cannot be read.
    """
    opened: list[str] = []
    failed: list[str] = []
    for pod in list(_waiting(api, job)):
        name = f"pod {pod.namespace}/{pod.name} of job {shown(pod.key)}"
        try:
            write.release(api, pod)
        except ApiError as error:
            failed.append(f"{name}: {error}")
        else:
            opened.append(f"admitted {name}")
    return opened, failed


def _waiting(api: KubernetesApi, job: str | None) -> Iterator[Pod]:
    namespace, _, name = (job or "").partition("/")
    path = f"/api/v1/namespaces/{namespace}/pods" if job else "/api/v1/pods"
    for page in api.pages(path):
        for found in page.get("items") or ():
            pod = read_pod(found)
            if pod is None or not pod.gated:
                continue
            names = {
                pod.job,
                shown(pod.key).partition("/")[2],
                *(called for _, called in names_of(found["metadata"])),
            }
            if job is None or name in names:
                yield pod
