"""All labels, annotations and gates of this project, and those of others that several programs read."""

from typing import Final

PREFIX: Final = "ultraserver-webhook.io/"

INJECT: Final = PREFIX + "inject"
"""Label or annotation on the job: ``false`` opts out, ``true`` opts in."""

ON: Final = frozenset({"true", "enabled"})
OFF: Final = frozenset({"false", "disabled"})

NODE_CONFIG: Final = PREFIX + "node-config"
"""Annotation on the job: its node config, ``"4"``, ``"2"`` or ``"1"``."""

JOB: Final = PREFIX + "job"
"""Label on workers: the job, unique in the cluster; never copied.

On pods that take no node it is an annotation, because (anti-)affinity selects the pods with the label.
"""

PLACE: Final = PREFIX + "place"
"""Placement annotation, on workers: their placer, and what it needs to know."""

OPENED: Final = PREFIX + "opened"
"""Annotation on a Pod of an admitted job: when placement pinned it, and a plan."""

TIME_LIMIT: Final = PREFIX + "time-limit"
"""Annotation on the job, and on its workers: how long it runs at most, ``30m``, ``4h`` or ``2d``."""

ON_NODE_FAILURE: Final = PREFIX + "on-node-failure"
"""Annotation on the job, and on its Pods: ``wait``, ``move`` or ``restart`` when one of its nodes fails."""

FOR_AUTHORS: Final = (INJECT, NODE_CONFIG, TIME_LIMIT, ON_NODE_FAILURE)
"""The keys that the author of a job may set on it."""

LABELS_FOR_AUTHORS: Final = frozenset({INJECT, NODE_CONFIG})
"""Those that may be labels; all may be annotations."""

GATE: Final = PREFIX + "whole-job"
"""Scheduling gate: the Pod waits for placement."""

BLOCK: Final = PREFIX + "block"
"""Label on a worker: its block in the job."""

LOOSE: Final = PREFIX + "loose"
"""Label on a Pod that uses devices and belongs to no job, and therefore keeps jobs off its UltraServer."""

INIT_SCRIPT: Final = PREFIX + "init-script"
"""Annotation on a launcher's Pod: the script that its init containers run."""

ADDED: Final = PREFIX + "added"
"""Annotation on a pod template: what the webhook added to it."""

ADDED_TO_POD: Final = PREFIX + "added-to-pod"
"""Annotation on a Pod: what the webhook added to this Pod."""

TRUSTED_SINCE: Final = PREFIX + "trusted-since"
"""Annotation on the certificate authority's Secret: the time since which every caBundle holds its bundle."""

STORED_AT: Final = PREFIX + "stored-at"
"""Annotation on the serving Secret: when its leaf certificate was stored.

A certificate that the user provides is older than that.
"""

HOSTNAME: Final = "kubernetes.io/hostname"
"""The node label that pins a pod of node config 1; every kubelet sets it."""

ULTRASERVER: Final = "neuron.amazonaws.com/ultraserver-"
SERVER_4: Final = ULTRASERVER + "server-id-4"
SERVER_2: Final = ULTRASERVER + "server-id-2"
NODE_IDS: Final = {SERVER_4: ULTRASERVER + "node-id-4", SERVER_2: ULTRASERVER + "node-id-2"}
"""The label with a node's number in its UltraServer, for each label with a server id."""

NO_SERVER: Final = "0000000000000000"
"""The server id of a node that is in no working UltraServer; its node id is then ``NO_NODE``."""
NO_NODE: Final = "-1"

NEURON: Final = "aws.amazon.com/neuron"
DEVICES: Final = frozenset({NEURON, f"{NEURON}core", f"{NEURON}device"})
"""Resources of the Neuron device plugin: a pod that requests one of them uses a part of a node."""

DRIVER: Final = "neuron.aws.com"
"""The Neuron DRA driver, whose devices pods get through device claims."""

LONGEST_LABEL: Final = 63
"""Maximum length of a label value (Kubernetes, "Labels and Selectors")."""

TRAINING: Final = "training.kubeflow.org/"
"""Prefix of the labels of mpi-operator and training-operator on a job's pods."""
