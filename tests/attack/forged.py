"""Forged records. They list fields that the webhook did not add, and the webhook must look for these fields.

The record, the annotation ``ultraserver-webhook.io/added`` on a pod template, lists the fields that an
earlier evaluation added, by digest (docs/adr/0002-record.md). Each author of a job can write a record. This
module has the records that cost the most work, as far as known.
"""

import hashlib
import json
from typing import Any

from tests.attack.live import job, review

ADDED = "ultraserver-webhook.io/added"
TERMS = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"
MAX_DIGESTS = 100
"""Maximum number of places in a record, and of digests at a place, when these records were found."""


def digest(canonical: str) -> str:
    """Returns a digest as in a record. An attacker has no module to import, so it is defined here again."""
    return hashlib.sha256(canonical.encode()).hexdigest()[:10]


def text(value: Any) -> str:
    """Returns the text of a value from which its digest is made."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def with_record(added: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    """Returns a job whose worker template has a record and further fields in its spec."""
    result = job("forged", 1000)
    template = result["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    template["metadata"] = {"annotations": {ADDED: json.dumps({"table": "x", "added": added})}}
    template["spec"] |= spec
    return result


def spec_with_term(term: dict[str, Any]) -> dict[str, Any]:
    """Returns a pod's spec with one node selector term."""
    required = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def expression(number: int) -> dict[str, Any]:
    """Returns a node selector requirement that the API server accepts."""
    return {"key": f"k{number}", "operator": "Exists"}


def lists_in_a_term(size: int) -> dict[str, Any]:
    """Returns a job with a term of thousands of one-element lists, and digests for the last hundred lists."""
    names = [f"a{at:05x}" for at in range(size // 13)]
    parts = [f'"{name}":[0]' for name in names]
    digests = [
        digest(f"[{{{','.join(parts[:-back])}}},0]") for back in range(1, min(MAX_DIGESTS, len(parts)) + 1)
    ]
    return with_record({TERMS: digests}, spec_with_term({name: [0] for name in names}))


def expressions_in_a_term(size: int) -> dict[str, Any]:
    """Returns a job that the API server admits: a long term, whose last hundred expressions are forged."""
    expressions = [expression(at) for at in range(size // 34)]
    parts = list(map(text, expressions))
    left = range(len(parts) - 1, max(0, len(parts) - 1 - MAX_DIGESTS), -1)
    digests = [digest(f'[{{"matchExpressions":[{",".join(parts[:at])}]}},{parts[at]}]') for at in left]
    return with_record({TERMS: digests}, spec_with_term({"matchExpressions": expressions}))


def containers_of_one_name(size: int) -> dict[str, Any]:
    """Returns a job with thousands of containers of one name, and places that each mean all containers."""
    container = {"name": "x", "env": [{"name": "a", "value": "b"}]}
    places = {f"/spec/initContainers/[x]/p{at}": f"{at:010x}" for at in range(MAX_DIGESTS - 1)}
    return with_record(
        {"/spec/initContainers/[x]/env": [f"{at:010x}" for at in range(MAX_DIGESTS)], **places},
        {"initContainers": [container] * (size // 50)},
    )


def places_in_a_long_list(size: int) -> dict[str, Any]:
    """Returns a job with a long list of volumes, and a record with a hundred places in this list."""
    volumes = [{"name": f"v{at}"} for at in range(size // 18)]
    places = {"/spec/volumes": [digest(text(volumes[at])) for at in range(0, len(volumes), 7)][:MAX_DIGESTS]}
    return with_record(
        {**places, **{f"/spec/volumes/[v{at}]/name": "0" * 10 for at in range(MAX_DIGESTS - 1)}},
        {"volumes": volumes},
    )


KINDS = {
    "lists in a term": lists_in_a_term,
    "expressions in a term": expressions_in_a_term,
    "containers of one name": containers_of_one_name,
    "places in a long list": places_in_a_long_list,
}


def body(kind: str, size: int) -> bytes:
    """Returns the review of a dry run of a job with a forged record, of about this many bytes."""
    return review(KINDS[kind](size), "forged", dryRun=True)
