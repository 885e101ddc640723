"""What a check says, and how it reads Deployments and versions. Pure."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kube.api import Object
from kubectl_ultraserver.objects import at, maps, name_of, number, text


class Status(StrEnum):
    """How a check went."""

    PASS = "pass"  # noqa: S105 - no password
    WARN = "warn"
    FAIL = "fail"


PASS, WARN, FAIL = Status


@dataclass(frozen=True, slots=True)
class Line:
    """One result of a check: how it went, what was found; if it did not pass, the way out and a document."""

    status: Status
    text: str
    remedy: str = ""
    link: str = ""
    check: str = ""


class Program(NamedTuple):
    """A Deployment: NAMESPACE/NAME, its image, that one's name and tag, its pods, its account's full name."""

    where: str
    image: str
    name: str
    version: str
    wanted: int
    ready: int
    account: str


def program(raw: Object) -> Program:
    """A Deployment."""
    there, pod = text(raw, "metadata", "namespace"), at(raw, "spec", "template", "spec")
    image = text(next(iter(maps(pod, "containers")), None), "image")
    name, _, tag = image.rpartition("/")[2].partition("@")[0].partition(":")
    account = f"system:serviceaccount:{there}:{text(pod, 'serviceAccountName') or 'default'}"
    wanted, ready = number(raw, "spec", "replicas"), number(raw, "status", "readyReplicas")
    return Program(f"{there}/{name_of(raw)}", image, name, tag, wanted, ready, account)


def release(version: str) -> tuple[int, int]:
    """The first two numbers of a version; zeros for what is none."""
    found = re.match(r"v?(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)
