"""The placement annotation, which admission writes once on a pod template for the placer of the job's pods.

It is ``ultraserver-webhook.io/place``, and consists of words ``KEY=VALUE`` in this order, for example::

    placer=gate workers=8 size=4 unit=neuron.amazonaws.com/ultraserver-server-id-4
    index=labels/training.kubeflow.org/replica-index

==========  ========================================================================================
``placer``  who chooses the nodes: ``affinity`` (the scheduler, by affinity terms), ``kueue``, ``gang`` (the
            scheduler, by the user's PodGroup), or ``gate`` (the placement program)
``workers``  the number of workers
``size``    the number of nodes in a unit: the node config
``unit``    the node label whose value the nodes of a unit share
``index``   where to find a pod's number, from 0: a sum such as ``labels/KEY*4+labels/OTHER+1``; ``env/NAME``
            is the plain value of a container's variable, ``name`` the number at the end of the pod's name;
            missing if the pods have no number
``group``   ``labels/KEY``, the label of pods that tells the groups of one object apart; missing if it is one
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
"""More workers than any cluster has nodes; a larger number is an error."""

MOST_TERMS: Final = 4
"""Maximum number of terms of an index."""

LONGEST: Final = 2000
"""Maximum length of a placement annotation, as many are cached."""

NAME: Final = "name"
LABEL: Final = "labels/"
ENV: Final = "env/"

_NUMBER: Final = re.compile(r"[0-9]{1,6}", re.ASCII)
_LAST_NUMBER: Final = re.compile(r"-([0-9]{1,6})$", re.ASCII)
_KEYS: Final = ("placer", "workers", "size", "unit", "index", "group")


class ContractError(ValueError):
    """A pod's placement annotation, or its number, cannot be read; the message says why."""


class Placer(StrEnum):
    """Who chooses the nodes of a job."""

    SCHEDULER = "scheduler"
    KUEUE = "kueue"
    GANG = "gang"
    WHOLE_JOB = "whole-job"


_WRITTEN: Final = {Placer.SCHEDULER: "affinity", Placer.WHOLE_JOB: "gate"}
"""What is written in this release, so that the release before reads it; both words are read."""

PLACERS: Final = {**{each.value: each for each in Placer}, **{word: each for each, word in _WRITTEN.items()}}
"""Each placer by its word, and by that of release 0.2.0."""


@dataclass(frozen=True, slots=True)
class Term:
    """A number of a pod, from its ``name``, ``labels/KEY`` or ``env/NAME``, times a factor."""

    source: str
    factor: int = 1

    def __str__(self) -> str:
        return self.source if self.factor == 1 else f"{self.source}*{self.factor}"

    def of(self, pod: Mapping[str, Any]) -> int:
        """Returns the value of the term for a pod.

        Raises:
            ContractError: The pod has no such number.
        """
        metadata = pod["metadata"]
        if self.source == NAME:
            number = _LAST_NUMBER.search(metadata.get("name") or "")
            if not number:
                raise ContractError("there is no number at the end of the pod's name")
            return int(number[1]) * self.factor
        kind, _, key = self.source.partition("/")
        what = "variable" if f"{kind}/" == ENV else "label"
        text = _variable(pod, key) if what == "variable" else (metadata.get("labels") or {}).get(key)
        if not isinstance(text, str) or not _NUMBER.fullmatch(text):
            value = text[:40] if isinstance(text, str) else text
            raise ContractError(f"{what} {key[:80]} is {value!r}: it must be the pod's number, from 0")
        return int(text) * self.factor


def _variable(pod: Mapping[str, Any], name: str) -> object:
    """Returns the plain value of a variable in the first container that has it; it may be of any type.

    If a container has two variables of one name, the last one is used, as by the kubelet.
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
    """Where to find a pod's number among the workers of its job, from 0: the sum of terms and offset."""

    terms: tuple[Term, ...]
    offset: int = 0

    def __str__(self) -> str:
        return "+".join(map(str, [*self.terms, *([self.offset] if self.offset else [])]))


@dataclass(frozen=True, slots=True)
class Place:
    """The words of a placement annotation, as in the table above.

    Attributes:
        index: None if the pods have no number.
        group: The label's key; empty if the object is one group.
    """

    placer: Placer
    workers: int
    size: int
    unit: str
    index: Index | None = None
    group: str = ""

    def __str__(self) -> str:
        group = self.group and LABEL + self.group
        values = (
            _WRITTEN.get(self.placer, self.placer),
            self.workers,
            self.size,
            self.unit,
            self.index or "",
            group,
        )
        return " ".join([f"{key}={value}" for key, value in zip(_KEYS, values, strict=True) if value != ""])

    def number(self, pod: Mapping[str, Any]) -> int | None:
        """Returns the number of a pod, or of its ``metadata`` and ``spec``; None without an index.

        Raises:
            ContractError: The pod has no number although there is an index.
        """
        if self.index is None:
            return None
        return sum(term.of(pod) for term in self.index.terms) + self.index.offset


@lru_cache(maxsize=1024)
def parse(text: str) -> Place:
    """Returns the content of a placement annotation; all pods of a job share one.

    Raises:
        ContractError: It cannot be read.
    """
    words = [word.partition("=") for word in text[:LONGEST].split(" ")]
    values = {key: value for key, _, value in words}
    known = values.keys() <= {*_KEYS} and all(values.values())
    if len(text) > LONGEST or len(values) < len(words) or not known:  # the cache keeps no errors
        raise _unreadable(f"it is {text[:80]!r}, not words such as {_KEYS[0]}=gate")
    if values.get("placer") not in PLACERS:
        placer = values.get("placer", "")[:40]
        raise _unreadable(f"placer is {placer!r}: it must be one of {', '.join(PLACERS)}")
    if "unit" not in values:
        raise _unreadable("unit is missing: the node label that makes units")
    return Place(
        PLACERS[values["placer"]],
        _count(values, "workers"),
        _count(values, "size"),
        values["unit"],
        _index(values["index"]) if "index" in values else None,
        _label(values["group"]) if "group" in values else "",
    )


def read(metadata: Mapping[str, Any]) -> Place | None:
    """Returns the placement annotation of a pod or a pod template; None if it does not belong to a worker.

    Raises:
        ContractError: It cannot be read.
    """
    text = (metadata.get("annotations") or {}).get(keys.PLACE)
    return None if text is None else parse(str(text))


def job(metadata: Mapping[str, Any], group: str = "") -> str:
    """Returns the job of a pod: its label or annotation, and the value of the label that tells groups apart.

    Returns:
        Empty if the pod has none, or if the value is not valid for a label.
    """
    labels = metadata.get("labels") or {}
    name = labels.get(keys.JOB) or (metadata.get("annotations") or {}).get(keys.JOB, "")
    if len(name) > keys.LONGEST_LABEL or "/" in name:
        return ""
    return f"{name}/{labels.get(group, '')}" if group and name else name


def _count(values: Mapping[str, Any], key: str) -> int:
    text = values.get(key, "")
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
    """Returns the key of a label."""
    key = source.removeprefix(LABEL)
    if key == source or not key:
        raise _unreadable(f"{source[:80]!r} must be 'labels/KEY'")
    return key


def _unreadable(why: str) -> ContractError:
    return ContractError(f"annotation {keys.PLACE} cannot be read: {why}")
