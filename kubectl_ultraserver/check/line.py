"""The result of a check; Deployments and versions, as checks read them. Pure."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kube.api import Object
from kubectl_ultraserver.objects import at, maps_at, name_of, number_at, text_at


class Status(StrEnum):
    """The result of a check in a word."""

    PASS = "pass"  # noqa: S105 - no password
    WARN = "warn"
    FAIL = "fail"


PASS, WARN, FAIL = Status


@dataclass(frozen=True, slots=True)
class Line:
    """One result of a check; if it did not pass, with what to do and a link to the documents."""

    status: Status
    text: str
    remedy: str = ""
    link: str = ""
    check: str = ""


class Program(NamedTuple):
    """A Deployment: NAMESPACE/NAME, image, the image's name and tag, numbers of pods, the account's name."""

    where: str
    image: str
    name: str
    version: str
    wanted: int
    ready: int
    account: str


def program(raw: Object) -> Program:
    """Returns the parts of a Deployment."""
    there, pod = text_at(raw, "metadata", "namespace"), at(raw, "spec", "template", "spec")
    image = text_at(next(iter(maps_at(pod, "containers")), None), "image")
    name, _, tag = image.rpartition("/")[2].partition("@")[0].partition(":")
    account = f"system:serviceaccount:{there}:{text_at(pod, 'serviceAccountName') or 'default'}"
    wanted, ready = number_at(raw, "spec", "replicas"), number_at(raw, "status", "readyReplicas")
    return Program(f"{there}/{name_of(raw)}", image, name, tag, wanted, ready, account)


def release(version: str) -> tuple[int, int]:
    """Returns the first two numbers of a version; zeros for any other text."""
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
