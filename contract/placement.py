"""Reads and writes the placement annotation, ``ultraserver-webhook.io/place``, for the placer of a job.

The webhook writes it on a pod template when the job is created. The value consists of words ``KEY=VALUE`` in
the order of this table, for example::

    placer=gate workers=8 size=4 unit=neuron.amazonaws.com/ultraserver-server-id-4
    index=labels/training.kubeflow.org/replica-index

==========  ========================================================================================
``placer``  who chooses the nodes: ``affinity`` (the scheduler, by affinity terms), ``kueue``, ``gang`` (the
            scheduler, by the user's PodGroup), or ``gate`` (the placement program)
``workers``  the number of workers in the job
``size``    the number of workers that share one unit: the node config
``unit``    the node label whose value the nodes of a unit share
``index``   how to compute a pod's number in the job, from 0: a sum such as ``labels/KEY*4+env/NAME+1``.
            ``labels/KEY`` is the value of a label, ``env/NAME`` the value of a container's variable, and
            ``name`` the number at the end of the pod's name. Missing if the pods have no number
``group``   ``labels/KEY``: the pod label that distinguishes the groups of one object. Missing if the object
            has one group
==========  ========================================================================================
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from contract import keys, messages

MOST_WORKERS: Final = 100_000
"""Maximum number of workers in a job. No cluster has this many nodes, so a larger number is an error."""

MOST_SUMMANDS: Final = 4
"""Maximum number of summands in the sum of an index."""

LONGEST_ANNOTATION: Final = 2000
"""Maximum length of a placement annotation. It is limited because `parse` caches the annotations."""

NAME: Final = "name"
LABEL: Final = "labels/"
ENV: Final = "env/"
"""The sources of a number: the end of a pod's name, and the prefixes for a label and for a variable."""

_NUMBER: Final = re.compile(r"[0-9]{1,6}", re.ASCII)
_LAST_NUMBER: Final = re.compile(r"-([0-9]{1,6})$", re.ASCII)
_KEYS: Final = ("placer", "workers", "size", "unit", "index", "group")


class ContractError(ValueError):
    """A pod's placement annotation or number cannot be read. The message gives the reason."""


class Placer(StrEnum):
    """Who chooses the nodes of a job."""

    SCHEDULER = "scheduler"
    KUEUE = "kueue"
    GANG = "gang"
    WHOLE_JOB = "whole-job"


_OLD_WORDS: Final = {Placer.SCHEDULER: "affinity", Placer.WHOLE_JOB: "gate"}
"""Words of the previous release, which cannot read newer words. So this release still writes old words."""

PLACERS: Final = {
    **{item.value: item for item in Placer},
    **{word: item for item, word in _OLD_WORDS.items()},
}
"""The placer for each word of this release and of the previous release, 0.2.0."""


@dataclass(frozen=True, slots=True)
class Summand:
    """A summand of an index: a pod's number from ``name``, ``labels/KEY`` or ``env/NAME``, times a factor."""

    source: str  # ``name``, ``labels/KEY`` or ``env/NAME``
    factor: int = 1  # the factor; 1 if the annotation has none

    def __str__(self) -> str:
        return self.source if self.factor == 1 else f"{self.source}*{self.factor}"

    def value(self, pod: Mapping[str, Any]) -> int:
        """Returns the value of the summand for a pod.

        Raises:
            ContractError: The source does not exist in the pod, or is not a number.
        """
        metadata = pod["metadata"]
        if self.source == NAME:
            number = _LAST_NUMBER.search(metadata.get("name") or "")
            if not number:
                raise ContractError(messages.NO_NUMBER)
            return int(number[1]) * self.factor
        kind, _, key = self.source.partition("/")
        source_name = "variable" if f"{kind}/" == ENV else "label"
        text = (
            _find_variable(pod, key) if source_name == "variable" else (metadata.get("labels") or {}).get(key)
        )
        if not isinstance(text, str) or not _NUMBER.fullmatch(text):
            value = text[:40] if isinstance(text, str) else text
            raise ContractError(messages.wrong_number(source_name, key[:80], value))
        return int(text) * self.factor


def _find_variable(pod: Mapping[str, Any], name: str) -> object:
    """Returns the value of a variable in the first container that has it. The value may have any type.

    If a container has two variables with this name, the last variable is used, as by the kubelet.
    """
    spec = pod.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    for container in containers if isinstance(containers, list) else ():
        variables = container.get("env") if isinstance(container, dict) else None
        for variable in reversed(variables) if isinstance(variables, list) else ():
            if isinstance(variable, dict) and variable.get("name") == name:
                return variable.get("value")
    return None


@dataclass(frozen=True, slots=True)
class Index:
    """How to compute a pod's number among its job's workers, from 0: the sum of summands and offset."""

    summands: tuple[Summand, ...]  # 1 to `MOST_SUMMANDS` summands
    offset: int = 0  # the offset; 0 if the annotation has none

    def __str__(self) -> str:
        return "+".join(map(str, [*self.summands, *([self.offset] if self.offset else [])]))


@dataclass(frozen=True, slots=True)
class Placement:
    """The content of a placement annotation. The docstring of this module describes each attribute."""

    placer: Placer
    workers: int
    size: int
    unit: str
    index: Index | None = None  # None if the pods have no number
    group: str = ""  # the key of the label, without ``labels/``; empty if the object has one group

    def __str__(self) -> str:
        group = self.group and LABEL + self.group
        placer = _OLD_WORDS.get(self.placer, self.placer)
        values = (placer, self.workers, self.size, self.unit, self.index or "", group)
        return " ".join([f"{key}={value}" for key, value in zip(_KEYS, values, strict=True) if value != ""])

    def number(self, pod: Mapping[str, Any]) -> int | None:
        """Returns the number of a pod among the workers of its job; None without an index.

        Only ``metadata`` and ``spec`` of the pod are read.

        Raises:
            ContractError: There is an index, but the pod has no number.
        """
        if self.index is None:
            return None
        return sum(summand.value(pod) for summand in self.index.summands) + self.index.offset


@lru_cache(maxsize=1024)
def parse(text: str) -> Placement:
    """Returns the content of a placement annotation. Results are cached: a job's pods have the same text.

    Raises:
        ContractError: The annotation cannot be read.
    """
    words = [word.partition("=") for word in text[:LONGEST_ANNOTATION].split(" ")]
    values = {key: value for key, _, value in words}
    has_known_words = values.keys() <= {*_KEYS} and all(values.values())
    # `lru_cache` stores no errors, so long texts take no memory.
    if len(text) > LONGEST_ANNOTATION or len(values) < len(words) or not has_known_words:
        raise _make_error(messages.wrong_words(text[:80]))
    if values.get("placer") not in PLACERS:
        raise _make_error(messages.wrong_placer(values.get("placer", "")[:40], ", ".join(PLACERS)))
    if "unit" not in values:
        raise _make_error(messages.NO_UNIT)
    return Placement(
        PLACERS[values["placer"]],
        _parse_count(values, "workers"),
        _parse_count(values, "size"),
        values["unit"],
        _parse_index(values["index"]) if "index" in values else None,
        _parse_label(values["group"]) if "group" in values else "",
    )


def read(metadata: Mapping[str, Any]) -> Placement | None:
    """Returns the placement annotation of a pod or pod template; None if the metadata has no such annotation.

    Raises:
        ContractError: The annotation cannot be read.
    """
    text = (metadata.get("annotations") or {}).get(keys.PLACEMENT)
    return None if text is None else parse(str(text))


def job_id(metadata: Mapping[str, Any], group: str = "") -> str:
    """Returns the id of a pod's job, from its job label or annotation; empty if that is missing or invalid.

    If ``group`` names the label that distinguishes an object's groups, the label's value is a part of the id.
    """
    labels = metadata.get("labels") or {}
    identifier = labels.get(keys.JOB) or (metadata.get("annotations") or {}).get(keys.JOB, "")
    if len(identifier) > keys.LONGEST_LABEL or "/" in identifier:
        return ""
    return f"{identifier}/{labels.get(group, '')}" if group and identifier else identifier


def _parse_count(values: Mapping[str, Any], key: str) -> int:
    number = values.get(key, "")
    if not _NUMBER.fullmatch(number) or not 1 <= int(number) <= MOST_WORKERS:
        raise _make_error(messages.wrong_count(key, number[:40]))
    return int(number)


def _parse_index(text: str) -> Index:
    parts = text.split("+")
    offset = int(parts.pop()) if _NUMBER.fullmatch(parts[-1]) else 0
    if not 1 <= len(parts) <= MOST_SUMMANDS:
        raise _make_error(messages.wrong_length(len(parts), MOST_SUMMANDS))
    return Index(tuple(map(_parse_summand, parts)), offset)


def _parse_summand(text: str) -> Summand:
    source, asterisk, factor = text.partition("*")
    is_source = source == NAME or (source.startswith((LABEL, ENV)) and not source.endswith("/"))
    if not is_source or (asterisk and not _NUMBER.fullmatch(factor)):
        raise _make_error(messages.wrong_summand(text[:50]))
    return Summand(source, int(factor) if asterisk else 1)


def _parse_label(source: str) -> str:
    """Returns ``KEY`` from ``labels/KEY``."""
    key = source.removeprefix(LABEL)
    if key == source or not key:
        raise _make_error(messages.wrong_group(source[:80]))
    return key


def _make_error(reason: str) -> ContractError:
    return ContractError(messages.unreadable(reason))
