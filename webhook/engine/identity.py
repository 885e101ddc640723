"""The job label's value: who a job is in the whole cluster, as a label can say it."""

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
"""The kind whose jobs are called as they were before others were: pods of such jobs run."""


def job_id(request: Request, name: str, generate_name: str, uid: str) -> str:
    """The value for a job; a valid label value of at most 63 characters.

    A named MPIJob is ``<namespace>.<name>``: a namespace has no dot, so no two share one. One of another
    kind is ``<namespace>.<name>_<Kind>.<group>``: neither names nor namespaces can have an underscore. What
    is too long, and what has no name yet, is a readable beginning, an underscore and 80 bits of a hash,
    which has no dot, so that no value of a kind looks like it.

    Args:
        request: what is being created; namespace, user, the object's kind and its times matter.
        name: of the job; empty where the API server will generate one.
        generate_name: the beginning of the name to come.
        uid: of the review that this job was first seen in.
    """
    if name:
        kind = _kind(request.object)
        of_kind = [] if kind == _FIRST else [kind]
        plain = "_".join([f"{request.namespace}.{name}", *of_kind])
        if len(plain) <= keys.LONGEST_LABEL and _PLAIN.fullmatch(plain):
            return plain
        return _hashed(f"{request.namespace}.{name}", [request.namespace, name, *of_kind])
    # The API server writes these times into an object that is being created.
    times = (str(entry.get("time")) for entry in maps_at(request.object, ("metadata", "managedFields")))
    seen = [request.namespace, generate_name, request.username, *times, uid]
    return _hashed(f"{request.namespace}.{generate_name}", ["", *seen])


def _kind(obj: Json) -> str:
    """``Kind.group`` of an object: its version may be another tomorrow."""
    group = str(get(obj, ("apiVersion",))).rpartition("/")[0]
    return f"{get(obj, ('kind',))}.{group}".rstrip(".")


def first_uid(request: Request, generate_name: str, recorded: str, label: Json) -> str:
    """The uid to compute an unnamed job's value from: that of the first of the API server's calls.

    A webhook that is invoked again for the same object gets a review with another uid (kube-apiserver,
    ``pkg/admission/plugin/webhook/request/admissionreview.go``). The uid of the first call is in the
    record. It counts only if the label follows from it together with the times in ``managedFields``, which
    the API server writes again for every object, and if no client sent it, which ``managedFields`` tells as
    well (their times are whole seconds): a copied record does not count.
    """
    if recorded and not _sent(request.object) and label == job_id(request, "", generate_name, recorded):
        return recorded
    return request.uid


def _sent(obj: Json) -> bool:
    """Whether the record was there before admission: ``managedFields`` then names it as somebody's."""
    return f'"f:{keys.ADDED}":' in canonical(get(obj, ("metadata", "managedFields")))


def _hashed(readable: str, parts: Sequence[str]) -> str:
    # Every part is length-delimited by JSON, so that no two lists of parts run together.
    number = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_DIGITS]
    start = re.sub(r"[^A-Za-z0-9.-]+", "-", readable)[: keys.LONGEST_LABEL - _DIGITS - 1].strip(".-") or "job"
    return f"{start}_{number}"
