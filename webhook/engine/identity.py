"""Computes the value of the job label, which identifies a job in the whole cluster."""

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Final

from contract import keys
from webhook.engine.outcome import Request
from webhook.objects.tree import Json, canonical, get, get_maps

_VALID_VALUE: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+(_[-.A-Za-z0-9]*[A-Za-z0-9])?"
)
_DIGITS: Final = 20
_OMITTED_KIND: Final = "MPIJob.kubeflow.org"
"""The only kind that is not a part of the value, so that pods of older releases keep their value."""


def job_id(request: Request, name: str, generate_name: str, uid: str) -> str:
    """Returns the value of the job label, with at most 63 characters.

    For an MPIJob with a name, the value is ``<namespace>.<name>``. A namespace has no dot, so two MPIJobs
    never have the same value. For a job of another kind, it is ``<namespace>.<name>_<Kind>.<group>``. Neither
    a name nor a namespace can contain an underscore.

    If this value is too long or not valid, or if the job has no name yet, the value is a readable beginning,
    an underscore and 80 bits of a hash. The hash has no dot and no capital letter, so this value differs from
    every value that ends with a kind.

    Args:
        request: The request with the job.
        name: The job's name; empty if the API server will generate one.
        generate_name: The beginning of a generated name.
        uid: The uid of the first review of this job; used only for a job without a name.
    """
    if name:
        kind = _read_kind_and_group(request.object)
        suffix = [] if kind == _OMITTED_KIND else [kind]
        value = "_".join([f"{request.namespace}.{name}", *suffix])
        if len(value) <= keys.LONGEST_LABEL and _VALID_VALUE.fullmatch(value):
            return value
        return _hash_value(f"{request.namespace}.{name}", [request.namespace, name, *suffix])
    # The API server writes these times into an object at its creation.
    times = (str(entry.get("time")) for entry in get_maps(request.object, ("metadata", "managedFields")))
    parts = [request.namespace, generate_name, request.username, *times, uid]
    return _hash_value(f"{request.namespace}.{generate_name}", ["", *parts])


def _read_kind_and_group(obj: Json) -> str:
    """Returns ``Kind.group``, or ``Kind`` in the core group, without the version, which can change."""
    group = str(get(obj, ("apiVersion",))).rpartition("/")[0]
    return f"{get(obj, ('kind',))}.{group}".rstrip(".")


def first_uid(request: Request, generate_name: str, old_uid: str, label: Json) -> str:
    """Returns the uid of a job's first review, from which the job label of an unnamed job is computed.

    The API server may call the webhook again for the same object, with another uid (kube-apiserver,
    ``pkg/admission/plugin/webhook/request/admissionreview.go``). Therefore the record has the uid of the
    first review. A client can copy a record into another object, so the recorded ``old_uid`` is used only if

    * ``managedFields`` shows that no client sent the record, and
    * the label has the value for this uid and for the times in ``managedFields``. The API server writes these
      times, in whole seconds, for every new object.
    """
    is_trusted = old_uid and not _is_record_sent_by_client(request.object)
    return old_uid if is_trusted and label == job_id(request, "", generate_name, old_uid) else request.uid


def _is_record_sent_by_client(obj: Json) -> bool:
    """Returns whether a client sent the record: if so, ``managedFields`` already has the record's key."""
    return f'"f:{keys.ADDED}":' in canonical(get(obj, ("metadata", "managedFields")))


def _hash_value(text: str, parts: Sequence[str]) -> str:
    # JSON quotes every part, so that no two lists of parts have the same text.
    digits = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_DIGITS]
    start = re.sub(r"[^A-Za-z0-9.-]+", "-", text)[: keys.LONGEST_LABEL - _DIGITS - 1].strip(".-") or "job"
    return f"{start}_{digits}"
