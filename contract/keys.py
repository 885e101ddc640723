"""Every label, annotation and gate of this project's own, and of others what several programs read."""

from typing import Final

PREFIX: Final = "ultraserver-webhook.io/"

INJECT: Final = PREFIX + "inject"
"""Label or annotation on the job: ``false`` opts out, ``true`` opts in."""

ON: Final = frozenset({"true", "enabled"})
OFF: Final = frozenset({"false", "disabled"})

NODE_CONFIG: Final = PREFIX + "node-config"
"""Annotation on the job: its node config, ``"4"``, ``"2"`` or ``"1"``."""

JOB: Final = PREFIX + "job"
"""Label on what takes nodes: unique to a job in the cluster; never copied.

An annotation on pods that take no node: (anti)affinity selects pods that have the label, and they are not
among these.
"""

PLACE: Final = PREFIX + "place"
"""Annotation on what takes nodes: who places it, and how."""

OPENED: Final = PREFIX + "opened"
"""Annotation on a Pod: when placement pinned it, and a plan."""

GATE: Final = PREFIX + "whole-job"
"""Scheduling gate: the Pod waits for placement."""

BLOCK: Final = PREFIX + "block"
"""Label on a Pod that takes a node: its block in the job."""

LOOSE: Final = PREFIX + "loose"
"""Label on a loose Pod, which keeps jobs off its UltraServer."""

INIT_SCRIPT: Final = PREFIX + "init-script"
"""Annotation on a launcher's Pod: the text that its init containers run."""

ADDED: Final = PREFIX + "added"
"""Annotation on a pod template: what the webhook added to it."""

ADDED_TO_POD: Final = PREFIX + "added-to-pod"
"""The same for a Pod itself."""

TRUSTED_SINCE: Final = PREFIX + "trusted-since"
"""Annotation on the authority's Secret: since when every caBundle holds its bundle."""

STORED_AT: Final = PREFIX + "stored-at"
"""Annotation on the serving Secret: when its leaf was written.

A provided leaf is older than that.
"""

HOSTNAME: Final = "kubernetes.io/hostname"
"""The node label that pins a pod of node config 1; every kubelet sets it."""

ULTRASERVER: Final = "neuron.amazonaws.com/ultraserver-"
SERVER_4: Final = ULTRASERVER + "server-id-4"
SERVER_2: Final = ULTRASERVER + "server-id-2"
NODE_IDS: Final = {SERVER_4: ULTRASERVER + "node-id-4", SERVER_2: ULTRASERVER + "node-id-2"}
"""For each label with a server id the one with the node's number on it."""

NO_SERVER: Final = "0000000000000000"
"""The server id that a node outside a working UltraServer reports; its node id is then ``NO_NODE``."""
NO_NODE: Final = "-1"

NEURON: Final = "aws.amazon.com/neuron"
DEVICES: Final = frozenset({NEURON, f"{NEURON}core", f"{NEURON}device"})
"""Resources of the Neuron device plugin: whoever takes one of them takes a part of a node from its jobs."""

DRIVER: Final = "neuron.aws.com"
"""The Neuron DRA driver, whose devices pods have by claims."""

LONGEST_LABEL: Final = 63
"""Characters of a label value (Kubernetes, "Labels and Selectors")."""

TRAINING: Final = "training.kubeflow.org/"
"""Prefix of the labels of mpi-operator and training-operator on a job's pods."""
