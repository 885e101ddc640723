"""Records of what was added that no one added: each makes an evaluation look for what it names.

The annotation ``ultraserver-webhook.io/added`` on a pod template names, by digest, what an earlier evaluation
put there (docs/adr/0002-record.md). Any author may write one. These are the worst ones known.
"""

import hashlib
import json
from typing import Any

from tests.attack.live import job, review

ADDED = "ultraserver-webhook.io/added"
TERMS = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"
MOST = 100
"""Digests at a place, and places, that a record may have had when these were found."""


def digest(canonical: str) -> str:
    """Returns as a record has it: written down here again, for who forges has no module to import."""
    return hashlib.sha256(canonical.encode()).hexdigest()[:10]


def text(value: Any) -> str:
    """Returns a value as digests are made of it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def recorded(added: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    """Returns a job whose worker template carries a record, and a further spec."""
    made = job("forged", 1000)
    template = made["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
    template["metadata"] = {"annotations": {ADDED: json.dumps({"table": "x", "added": added})}}
    template["spec"] |= spec
    return made


def selecting(term: dict[str, Any]) -> dict[str, Any]:
    """Returns a pod's spec with one node selector term."""
    required = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def expression(number: int) -> dict[str, Any]:
    """Returns a requirement that the API server takes."""
    return {"key": f"k{number}", "operator": "Exists"}


def lists_in_a_term(size: int) -> dict[str, Any]:
    """Returns a term of thousands of one-element lists, and digests for its last hundred."""
    names = [f"a{at:05x}" for at in range(size // 13)]
    parts = [f'"{name}":[0]' for name in names]
    digests = [digest(f"[{{{','.join(parts[:-back])}}},0]") for back in range(1, min(MOST, len(parts)) + 1)]
    return recorded({TERMS: digests}, selecting({name: [0] for name in names}))


def expressions_in_a_term(size: int) -> dict[str, Any]:
    """Returns what the API server's schema admits: one long term, its last hundred expressions forged."""
    expressions = [expression(at) for at in range(size // 34)]
    parts = list(map(text, expressions))
    left = range(len(parts) - 1, max(0, len(parts) - 1 - MOST), -1)
    digests = [digest(f'[{{"matchExpressions":[{",".join(parts[:at])}]}},{parts[at]}]') for at in left]
    return recorded({TERMS: digests}, selecting({"matchExpressions": expressions}))


def containers_of_one_name(size: int) -> dict[str, Any]:
    """Thousands of containers of one name, and places that each mean all of them."""
    container = {"name": "x", "env": [{"name": "a", "value": "b"}]}
    places = {f"/spec/initContainers/[x]/p{at}": f"{at:010x}" for at in range(MOST - 1)}
    return recorded(
        {"/spec/initContainers/[x]/env": [f"{at:010x}" for at in range(MOST)], **places},
        {"initContainers": [container] * (size // 50)},
    )


def places_in_a_long_list(size: int) -> dict[str, Any]:
    """Returns one list of many elements, named once in each of a hundred places of the same way."""
    volumes = [{"name": f"v{at}"} for at in range(size // 18)]
    places = {"/spec/volumes": [digest(text(volumes[at])) for at in range(0, len(volumes), 7)][:MOST]}
    return recorded(
        {**places, **{f"/spec/volumes/[v{at}]/name": "0" * 10 for at in range(MOST - 1)}},
        {"volumes": volumes},
    )


KINDS = {
    "lists in a term": lists_in_a_term,
    "expressions in a term": expressions_in_a_term,
    "containers of one name": containers_of_one_name,
    "places in a long list": places_in_a_long_list,
}


def body(kind: str, size: int) -> bytes:
    """Returns the review of a dry run of such a job, of about this many bytes."""
    return review(KINDS[kind](size), "forged", dryRun=True)
