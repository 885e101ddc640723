"""Every label and annotation key that is this project's own, in one place."""

from typing import Final

PREFIX: Final = "ultraserver-webhook.io/"

INJECT: Final = PREFIX + "inject"
"""Label or annotation on the job: ``false`` opts out, ``true`` makes any job a candidate."""

NODE_CONFIG: Final = PREFIX + "node-config"
"""Annotation on the job: the node config (``"4"``, ``"2"`` or ``"1"``) to use whatever the table says."""

JOB: Final = PREFIX + "job"
"""Label on the worker template: unique to a job in the cluster, always computed, never taken over."""

WORKERS: Final = PREFIX + "workers"
TOPOLOGY_KEY: Final = PREFIX + "topology-key"
INDEX: Final = PREFIX + "index"
OPENED: Final = PREFIX + "opened"
"""Annotations for the program that places jobs. Rows write them on pod templates, it the last one on Pods."""

GATE: Final = PREFIX + "whole-job"
"""Scheduling gate behind which a Pod waits for that program."""

BLOCK: Final = PREFIX + "block"
"""Label on a Pod that takes a node: the number of its block of consecutive workers in the job."""

ADDED: Final = PREFIX + "added"
"""Annotation on a pod template: the record of what the webhook added to it (see ``record.py``)."""

ADDED_TO_POD: Final = PREFIX + "added-to-pod"
"""The same on a Pod: what was added to its template beforehand is not this evaluation's to take back."""

ON: Final = frozenset({"true", "enabled"})
OFF: Final = frozenset({"false", "disabled"})
