"""The place: what admission writes once, on the pod template, for whatever places a job's pods.

One annotation, ``ultraserver-webhook.io/place``, of words ``KEY=VALUE`` in this order, for example::

    placer=gate workers=8 size=4 unit=neuron.amazonaws.com/ultraserver-server-id-4
    index=labels/training.kubeflow.org/replica-index

==========  ========================================================================================
``placer``  who finds the nodes: ``affinity`` (the scheduler, by terms), ``kueue``, ``gang`` (the scheduler,
            by a PodGroup of the author), or ``gate`` (placement)
``workers``  how many pods take nodes
``size``    how many nodes work as one unit: the node config
``unit``    the node label whose value the nodes of a unit share
``index``   where a pod's number is, from 0: a sum such as ``labels/KEY*4+labels/OTHER+1``; ``env/NAME`` is
            the plain value of a container's variable, ``name`` the number at the end of the pod's name;
            missing where pods have no number
``group``   ``labels/KEY`` of pods whose value tells apart the units of one object; missing where it is one
==========  ========================================================================================
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from contract import keys

MOST_WORKERS: Final = 100_000
"""More than any cluster has nodes; a number beyond it is a mistake."""

MOST_TERMS: Final = 4
"""Terms of an index."""

LONGEST: Final = 2000
"""Characters of a place: many are kept."""

NAME: Final = "name"
LABEL: Final = "labels/"
ENV: Final = "env/"

_NUMBER: Final = re.compile(r"[0-9]{1,6}", re.ASCII)
_LAST_NUMBER: Final = re.compile(r"-([0-9]{1,6})$", re.ASCII)
_KEYS: Final = ("placer", "workers", "size", "unit", "index", "group")


class ContractError(ValueError):
    """What a pod says about its place cannot be read; the message says what and why."""


class Placer(StrEnum):
    """Who finds the nodes of a job."""

    AFFINITY = "affinity"
    KUEUE = "kueue"
    GANG = "gang"
    GATE = "gate"


@dataclass(frozen=True, slots=True)
class Term:
    """A number of a pod, whose source is ``name``, ``labels/KEY`` or ``env/NAME``, times a factor."""

    source: str
    factor: int = 1

    def __str__(self) -> str:
        return self.source if self.factor == 1 else f"{self.source}*{self.factor}"

    def of(self, pod: Mapping[str, Any]) -> int:
        """Its value for a pod.

        Raises:
            ContractError: The pod has no such number.
        """
        metadata = pod["metadata"]
        if self.source == NAME:
            found = _LAST_NUMBER.search(metadata.get("name") or "")
            if not found:
                raise ContractError("there is no number at the end of the pod's name")
            return int(found[1]) * self.factor
        kind, _, key = self.source.partition("/")
        what = "variable" if f"{kind}/" == ENV else "label"
        text = _variable(pod, key) if what == "variable" else (metadata.get("labels") or {}).get(key)
        if not isinstance(text, str) or not _NUMBER.fullmatch(text):
            said = text[:40] if isinstance(text, str) else text
            raise ContractError(f"{what} {key[:80]} is {said!r}: it must be the pod's number, from 0")
        return int(text) * self.factor


def _variable(pod: Mapping[str, Any], name: str) -> object:
    """The plain value of a variable, of the first container that has it; anything may stand there.

    Of two of one name in a container the last counts, as for the kubelet.
    """
    spec = pod.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    for container in containers if isinstance(containers, list) else ():
        variables = container.get("env") if isinstance(container, dict) else None
        for each in reversed(variables) if isinstance(variables, list) else ():
            if isinstance(each, dict) and each.get("name") == name:
                return each.get("value")
    return None


@dataclass(frozen=True, slots=True)
class Index:
    """Where a pod's number is, from 0 among those of the job that take nodes: terms and offset are added."""

    terms: tuple[Term, ...]
    offset: int = 0

    def __str__(self) -> str:
        return "+".join(map(str, [*self.terms, *([self.offset] if self.offset else [])]))


@dataclass(frozen=True, slots=True)
class Place:
    """What is to be known about a job to place its pods: the words of the annotation, above.

    Attributes:
        index: None where pods have no number.
        group: The label's key; empty where the object is one unit.
    """

    placer: Placer
    workers: int
    size: int
    unit: str
    index: Index | None = None
    group: str = ""

    def __str__(self) -> str:
        group = self.group and LABEL + self.group
        values = (self.placer, self.workers, self.size, self.unit, self.index or "", group)
        return " ".join([f"{key}={value}" for key, value in zip(_KEYS, values, strict=True) if value != ""])

    def number(self, pod: Mapping[str, Any]) -> int | None:
        """The number of a pod, or of what has its ``metadata`` and ``spec``; None where pods have none.

        Raises:
            ContractError: It should have one.
        """
        if self.index is None:
            return None
        return sum(term.of(pod) for term in self.index.terms) + self.index.offset


@lru_cache(maxsize=1024)
def parse(text: str) -> Place:
    """The place that an annotation says; one for all pods of a job, which say the same.

    Raises:
        ContractError: It cannot be read.
    """
    words = [word.partition("=") for word in text[:LONGEST].split(" ")]
    said = {key: value for key, _, value in words}
    known = said.keys() <= {*_KEYS} and all(said.values())
    if len(text) > LONGEST or len(said) < len(words) or not known:  # what is raised is not cached
        raise _unreadable(f"it is {text[:80]!r}, not words such as {_KEYS[0]}=gate")
    if said.get("placer") not in {*Placer}:
        raise _unreadable(f"placer is {said.get('placer', '')[:40]!r}: it must be one of {', '.join(Placer)}")
    if "unit" not in said:
        raise _unreadable("unit is missing: the node label that makes units")
    return Place(
        Placer(said["placer"]),
        _count(said, "workers"),
        _count(said, "size"),
        said["unit"],
        _index(said["index"]) if "index" in said else None,
        _label(said["group"]) if "group" in said else "",
    )


def read(metadata: Mapping[str, Any]) -> Place | None:
    """The place that a pod, or a pod template, has; None for one that takes no node for a job.

    Raises:
        ContractError: It cannot be read.
    """
    text = (metadata.get("annotations") or {}).get(keys.PLACE)
    return None if text is None else parse(str(text))


def job(metadata: Mapping[str, Any], group: str = "") -> str:
    """The job of a pod: its label, or annotation, and the value of the label that tells units apart.

    Returns:
        Empty where it has none, or what stands there could be no label's value.
    """
    labels = metadata.get("labels") or {}
    said = labels.get(keys.JOB) or (metadata.get("annotations") or {}).get(keys.JOB, "")
    if len(said) > keys.LONGEST_LABEL or "/" in said:
        return ""
    return f"{said}/{labels.get(group, '')}" if group and said else said


def _count(said: Mapping[str, Any], key: str) -> int:
    text = said.get(key, "")
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= MOST_WORKERS:
        raise _unreadable(f"{key} is {text[:40]!r}: it must be a whole number from 1")
    return int(text)


def _index(text: str) -> Index:
    parts = text.split("+")
    offset = int(parts.pop()) if _NUMBER.fullmatch(parts[-1]) else 0
    if not 1 <= len(parts) <= MOST_TERMS:
        raise _unreadable(f"index has {len(parts)} terms: it must have 1 to {MOST_TERMS}")
    return Index(tuple(map(_term, parts)), offset)


def _term(text: str) -> Term:
    source, times, factor = text.partition("*")
    named = source == NAME or (source.startswith((LABEL, ENV)) and not source.endswith("/"))
    if not named or (times and not _NUMBER.fullmatch(factor)):
        raise _unreadable(
            f"index has the term {text[:50]!r}: it must be 'name', 'labels/KEY' or 'env/NAME', or that times"
            " a number"
        )
    return Term(source, int(factor) if times else 1)


def _label(source: str) -> str:
    """The key of a label."""
    key = source.removeprefix(LABEL)
    if key == source or not key:
        raise _unreadable(f"{source[:80]!r} must be 'labels/KEY'")
    return key


def _unreadable(why: str) -> ContractError:
    return ContractError(f"annotation {keys.PLACE} cannot be read: {why}")
