"""The results of checks, and the programs and versions that checks examine. Pure."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kube.api import Object
from kubectl_ultraserver.objects import at, maps_at, name_of, number_at, text_at


class Status(StrEnum):
    """Whether a check passed."""

    PASS = "pass"  # noqa: S105 - no password
    WARN = "warn"
    FAIL = "fail"


PASS, WARN, FAIL = Status


@dataclass(frozen=True, slots=True)
class Line:
    """One result of a check. Only results that are not ``pass`` have a remedy and a link to the documents."""

    status: Status  # whether the check passed
    code: str  # the code of the result, for programs
    text: str  # the result, for people
    remedy: str = ""  # what to do; empty if the status is ``pass``
    link: str = ""  # the document that explains the remedy; empty if the status is ``pass``
    check: str = ""  # the name of the check; empty until `run_checks` sets it


class DeployedProgram(NamedTuple):
    """The program of a Deployment."""

    deployment: str  # the Deployment's namespace and name, as NAMESPACE/NAME
    image: str  # the image of the first container; empty if it has none
    name: str  # the image's name without registry and tag
    version: str  # the image's tag; empty if it has no tag
    wanted: int  # the number of pods that the Deployment should have
    ready: int  # the number of pods that are ready
    account: str  # the user name of the pods' service account


def deployed_program(raw: Object) -> DeployedProgram:
    """Returns the program of a Deployment."""
    namespace, pod = text_at(raw, "metadata", "namespace"), at(raw, "spec", "template", "spec")
    image = text_at(next(iter(maps_at(pod, "containers")), None), "image")
    name, _, tag = image.rpartition("/")[2].partition("@")[0].partition(":")
    account = f"system:serviceaccount:{namespace}:{text_at(pod, 'serviceAccountName') or 'default'}"
    replicas, ready = number_at(raw, "spec", "replicas"), number_at(raw, "status", "readyReplicas")
    return DeployedProgram(f"{namespace}/{name_of(raw)}", image, name, tag, replicas, ready, account)


def release(version: str) -> tuple[int, int]:
    """Returns the first two numbers of a version; zeros for any other text."""
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
