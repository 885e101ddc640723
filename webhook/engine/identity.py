"""The job label's value, which identifies a job in the whole cluster."""

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Final

from contract import keys
from webhook.engine.outcome import Request
from webhook.objects.tree import Json, canonical, get, maps_at

_PLAIN: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+(_[-.A-Za-z0-9]*[A-Za-z0-9])?"
)
_DIGITS: Final = 20
_FIRST: Final = "MPIJob.kubeflow.org"
"""The kind whose jobs have a value without the kind: pods from before there were other kinds have it."""


def job_id(request: Request, name: str, generate_name: str, uid: str) -> str:
    """Returns the value for a job: a valid label value of at most 63 characters.

    A named MPIJob is ``<namespace>.<name>``: a namespace has no dot, so no two jobs share a value. A job of
    another kind is ``<namespace>.<name>_<Kind>.<group>``: neither names nor namespaces can have an
    underscore. If that is too long, or if there is no name yet, it is a readable beginning, an underscore and
    80 bits of a hash, which has no dot, so that no value with a kind looks like it.

    Args:
        request: The creation; its namespace, user, kind and times are used.
        name: The job's name; empty if the API server will generate one.
        generate_name: The beginning of the later name.
        uid: The uid of the first review of this job.
    """
    if name:
        kind = _kind(request.object)
        of_kind = [] if kind == _FIRST else [kind]
        plain = "_".join([f"{request.namespace}.{name}", *of_kind])
        if len(plain) <= keys.LONGEST_LABEL and _PLAIN.fullmatch(plain):
            return plain
        return _hashed(f"{request.namespace}.{name}", [request.namespace, name, *of_kind])
    # The API server writes these times into an object at its creation.
    times = (str(entry.get("time")) for entry in maps_at(request.object, ("metadata", "managedFields")))
    seen = [request.namespace, generate_name, request.username, *times, uid]
    return _hashed(f"{request.namespace}.{generate_name}", ["", *seen])


def _kind(obj: Json) -> str:
    """Returns ``Kind.group`` of an object; its version may change."""
    group = str(get(obj, ("apiVersion",))).rpartition("/")[0]
    return f"{get(obj, ('kind',))}.{group}".rstrip(".")


def first_uid(request: Request, generate_name: str, recorded: str, label: Json) -> str:
    """Returns the uid for an unnamed job's value: that of the first of the API server's calls.

    A webhook that is invoked again for the same object gets a review with another uid (kube-apiserver,
    ``pkg/admission/plugin/webhook/request/admissionreview.go``). The record has the uid of the first call. It
    is valid only if the label follows from it and the times in ``managedFields``, which the API server writes
    again for every object, and if no client sent the record, which ``managedFields`` also shows (their times
    are in whole seconds): a copied record is not valid.
    """
    if recorded and not _sent(request.object) and label == job_id(request, "", generate_name, recorded):
        return recorded
    return request.uid


def _sent(obj: Json) -> bool:
    """Returns whether the record was there before admission: then ``managedFields`` names a client."""
    return f'"f:{keys.ADDED}":' in canonical(get(obj, ("metadata", "managedFields")))


def _hashed(readable: str, parts: Sequence[str]) -> str:
    # JSON quotes every part, so that no two lists of parts have the same text.
    number = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_DIGITS]
    start = re.sub(r"[^A-Za-z0-9.-]+", "-", readable)[: keys.LONGEST_LABEL - _DIGITS - 1].strip(".-") or "job"
    return f"{start}_{number}"
