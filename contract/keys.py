"""Names all labels, annotations and scheduling gates of this project, and shared names of other projects."""

from typing import Final

PREFIX: Final = "ultraserver-webhook.io/"

INJECT: Final = PREFIX + "inject"
"""Label or annotation on a job, or label on its namespace: ``true`` opts in, ``false`` opts out."""

OPT_IN_VALUES: Final = frozenset({"true", "enabled"})
OPT_OUT_VALUES: Final = frozenset({"false", "disabled"})
"""The values of `INJECT` that opt in and that opt out."""

NODE_CONFIG: Final = PREFIX + "node-config"
"""Label or annotation on a job: the node config, such as ``"4"``, ``"2"`` or ``"1"``."""

JOB: Final = PREFIX + "job"
"""Label on a worker: identifies its job in the cluster. The webhook computes it; a user's value is ignored.

A pod that takes no node has an annotation instead, because affinity terms select the pods with the label.
"""

PLACEMENT: Final = PREFIX + "place"
"""The placement annotation on a worker: the placer, and the data for its choice (`contract.placement`).

This key and `OPENED` keep their names: running jobs have them, and the previous release reads only them.
"""

OPENED: Final = PREFIX + "opened"
"""Annotation on a Pod of an admitted job: when the Pod was pinned, and the planned units of other blocks."""

TIME_LIMIT: Final = PREFIX + "time-limit"
"""Annotation on a job and its workers: the author's estimate of the run time: ``30m``, ``4h``, ``2d``."""

ON_NODE_FAILURE: Final = PREFIX + "on-node-failure"
"""Annotation on a job and its Pods: what to do when a node has failed: ``wait``, ``move`` or ``restart``."""

FOR_AUTHORS: Final = (INJECT, NODE_CONFIG, TIME_LIMIT, ON_NODE_FAILURE)
"""The keys that a user may set on a job."""

LABELS_FOR_AUTHORS: Final = frozenset({INJECT, NODE_CONFIG})
"""The keys that a user may set as labels. A user may set every key of `FOR_AUTHORS` as an annotation."""

GATE: Final = PREFIX + "whole-job"
"""Scheduling gate on a Pod that waits until the placement program admits its job."""

BLOCK: Final = PREFIX + "block"
"""Label on a worker: its block. The workers of a job that share one unit form a block."""

LOOSE: Final = PREFIX + "loose"
"""Label on a Pod that uses devices and belongs to no placed job. It keeps placed jobs off its UltraServer."""

INIT_SCRIPT: Final = PREFIX + "init-script"
"""Annotation on a launcher's Pod: the script that its init containers run."""

ADDED: Final = PREFIX + "added"
"""Annotation on a pod template: the record of what the webhook added to the template."""

ADDED_TO_POD: Final = PREFIX + "added-to-pod"
"""Annotation on a Pod: the record of what the webhook added to this Pod and not to its template."""

TRUSTED_SINCE: Final = PREFIX + "trusted-since"
"""Annotation on the CA's Secret: the time since which every caBundle has the Secret's bundle."""

STORED_AT: Final = PREFIX + "stored-at"
"""Annotation on the Secret with the serving certificate: when that certificate was stored.

For a certificate that the user provides, this time is later than the time of issue.
"""

HOSTNAME: Final = "kubernetes.io/hostname"
"""The node label by which a worker with node config 1 is pinned to its node. Every kubelet sets it."""

ULTRASERVER: Final = "neuron.amazonaws.com/ultraserver-"
SERVER_4: Final = ULTRASERVER + "server-id-4"
SERVER_2: Final = ULTRASERVER + "server-id-2"
NODE_IDS: Final = {SERVER_4: ULTRASERVER + "node-id-4", SERVER_2: ULTRASERVER + "node-id-2"}
"""Maps the label with an UltraServer's id to the label with the node's number in that UltraServer."""

NO_SERVER: Final = "0000000000000000"
"""The UltraServer's id on a node that is in no working UltraServer. The node's number is then `NO_NODE`."""
NO_NODE: Final = "-1"

NEURON: Final = "aws.amazon.com/neuron"
DEVICES: Final = frozenset({NEURON, f"{NEURON}core", f"{NEURON}device"})
"""The resources of the Neuron device plugin. A pod that requests one of them uses a node or a part of it."""

DRIVER: Final = "neuron.aws.com"
"""The name of the Neuron DRA driver, whose devices a pod gets through a device claim."""

LONGEST_LABEL: Final = 63
"""Maximum length of a label value (Kubernetes, "Labels and Selectors")."""

TRAINING: Final = "training.kubeflow.org/"
"""Prefix of the labels that mpi-operator and training-operator set on a job's pods."""
