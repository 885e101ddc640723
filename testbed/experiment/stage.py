"""A cluster for experiments: a control plane, UltraServer nodes, the webhook, and the placement program."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from kube.api import ConflictError, Object
from kube.client import KubernetesApi, connect
from testbed.experiment.judge import JobPlacement, Key, config_of, job_placements, overlooked, wholly_free
from testbed.mpijob import mpijob
from testbed.plane import kueue, nodes, placement, webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import JOB_NAME, ROLE, delete_all
from testbed.plane.placement import ACCOUNT, NAMESPACE
from testbed.plane.process import Program
from testbed.waiting import PATIENCE, NotYetError
from webhook.rules.load import load_default

TEAMS = ("team-a", "team-b", "team-c")
MPIJOBS = "/apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs"
WORKER = f"{ROLE}=worker"
WORKERS = f"/api/v1/pods?labelSelector={quote(WORKER, safe='')}"
POLICIES = ("base", "placement", "claims", "kueue", "webhook", "document", "selector")
PROGRAM_POLICIES = ("base", "placement", "claims")
"""The policies that use the placement program."""
OWNED_KINDS = ("jobs.batch", "services", "configmaps", "secrets")
"""The kinds of objects that mpi-operator creates for a job, except its workers."""


def table(policy: str) -> str:
    """Returns the rule table for a policy of the experiment."""
    if policy in {"placement", "claims"}:
        return placement.ROWS.read_text(encoding="utf-8")
    if policy == "kueue":
        return kueue.ROWS.read_text(encoding="utf-8")
    rows = load_default()
    disabled = [rule.name for rule in rows.rules if policy == "selector" and rule.name != "ultraserver-nodes"]
    document_head = {"apiVersion": rows.api_version, "kind": "RuleTable", "extends": "default"}
    if policy == "document":
        return json.dumps(document_head | {"extends": "aws-document", "values": {"initImage": "init"}})
    return json.dumps(document_head | {"rules": [{"name": name, "mode": "off"} for name in disabled]})


@dataclass
class Stage:
    """The cluster of a test or an experiment.

    Attributes:
        plane: The control plane.
        api: Its API server, as the administrator.
        labels: The labels of every node.
        sick: The nodes that are cordoned.
        jobs: The number of workers of every job that was applied and not deleted.
        policy: How jobs are placed: one of `POLICIES`.
        queue: The Kueue queue that jobs name; empty for none.
        rules: The rule table for the program; None for the packaged table.
        claims: Whether jobs use device claims. The names of such jobs begin with ``c-``.
    """

    plane: ControlPlane
    api: KubernetesApi
    labels: dict[str, dict[str, str]]
    sick: set[str] = field(default_factory=set)
    jobs: dict[Key, int] = field(default_factory=dict)
    policy: str = "placement"
    queue: str = ""
    rules: Path | None = None
    claims: bool = False
    _programs: int = 0

    @property
    def healthy(self) -> set[str]:
        """The nodes of UltraServers without a sick node."""
        broken = {self.labels[name][nodes.SERVER_ID_4] for name in self.sick}
        return {
            name
            for name, labels in self.labels.items()
            if nodes.SERVER_ID_4 in labels and labels[nodes.SERVER_ID_4] not in broken
        }

    @property
    def usable(self) -> set[str]:
        """The UltraServer nodes that are not sick."""
        return {name for name, labels in self.labels.items() if nodes.SERVER_ID_4 in labels} - self.sick

    def start_program(self, kubeconfig: Path | None = None, **options: float | str) -> Program:
        """Starts ``python -m placement run`` with the ServiceAccount of the manifests."""
        self._programs += 1
        name = f"placement-{self._programs}"
        rules = {"rules": self.rules} if self.rules else {}
        return placement.start(self.plane, name, kubeconfig, **rules, **options)

    def apply(
        self,
        name: str,
        workers: int,
        namespace: str = TEAMS[0],
        labels: Mapping[str, str] | None = None,
        **changes: object,
    ) -> Key:
        """Creates an MPIJob with these labels. ``changes`` replace fields of its spec."""
        document = mpijob(workers, name=name)
        if self.claims:
            document = mpijob(workers, name=f"c-{name}", claim=nodes.template_name(config_of(workers)))
        document["spec"] |= changes
        document["metadata"]["labels"] = dict(labels or {})
        return self.create(document, namespace)[0]

    def create(self, document: Object, namespace: str = TEAMS[0]) -> tuple[Key, Object]:
        """Creates an MPIJob, in the stage's queue if there is one. Returns its key and the stored object."""
        metadata = document["metadata"]
        if self.queue:
            metadata["labels"] = {kueue.QUEUE: self.queue} | metadata.get("labels", {})
        stored = self.api.create(MPIJOBS.format(namespace), document)
        key = (namespace, str(stored["metadata"]["name"]))
        self.jobs[key] = document["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]
        return key, stored

    def finish(self, key: Key) -> None:
        """Deletes a job and its pods at once, because no kubelet ends the pods."""
        namespace, name = key
        self.api.delete(f"{MPIJOBS.format(namespace)}/{name}")
        delete_all(self.plane.kubectl.in_namespace(namespace), "pods", "-l", f"{JOB_NAME}={name}")
        del self.jobs[key]

    def clear(self) -> None:
        """Ends every job, uncordons every node, and waits until no object that a job owned exists.

        For example, while the Service of an old job exists, mpi-operator creates no pods for a new job of the
        same name. The pauses between its attempts double.
        """
        teams = {namespace for namespace, _ in self.jobs}
        for key in list(self.jobs):
            self.finish(key)
        for name in list(self.sick):
            self.cordon(name, cordoned=False)
        # Kueue finds a Workload by the job's name: the Workload of an old job would admit a new job.
        for kind in (*OWNED_KINDS, *([kueue.WORKLOADS] if self.policy == "kueue" else [])):
            self.plane.kubectl.wait_for(_has_no_owned, kind, "-A")
        # The operator may create pods for a job that was just deleted, and no kubelet ends these pods.
        for team in teams:
            delete_all(self.plane.kubectl.in_namespace(team), "pods", "-l", JOB_NAME)

    def pods(self, key: Key) -> list[Object]:
        """Returns the pods of a job, sorted by name."""
        pods = self.plane.kubectl.in_namespace(key[0]).get_json("pods", "-l", f"{JOB_NAME}={key[1]}")
        return sorted(pods["items"], key=lambda pod: str(pod["metadata"]["name"]))

    def workers(self) -> list[Object]:
        """Returns all worker pods, and ends the pods that are being deleted, as a kubelet would."""
        return self._end_deleted([pod for page in self.api.pages(WORKERS) for pod in page["items"]])

    def _end_deleted(self, pods: list[Object]) -> list[Object]:
        for metadata in (pod["metadata"] for pod in pods):
            if "deletionTimestamp" in metadata:
                with contextlib.suppress(ConflictError):  # the operator has already replaced the pod
                    self.end(metadata["namespace"], metadata["name"], {"uid": metadata["uid"]})
        return pods

    def end(self, namespace: str, name: str, only: Mapping[str, str] | None = None) -> None:
        """Deletes a pod at once, if it has the uid in ``only`` or ``only`` is None."""
        self.api.delete(f"/api/v1/namespaces/{namespace}/pods/{name}", only, grace_seconds=0)

    def job_placements(self) -> dict[Key, JobPlacement]:
        """Returns the placement of every job."""
        return job_placements(self.jobs, self.workers(), self.labels)

    def wait_until_quiet(
        self, seconds: float, limit: float = 120.0, patience: float = 0.0
    ) -> dict[Key, JobPlacement]:
        """Returns the placement of each job when all workers exist and nothing has changed for some seconds.

        Args:
            seconds: For how many seconds nothing must have changed.
            limit: Seconds after which it returns in any case; twice ``patience`` if that is longer.
            patience: The minimum of ``seconds`` while a job holds a part of its nodes, or could start but
                waits: on a busy machine, another program may be slow.
        """
        last_state: list[tuple[str, str, bool]] = []
        began = since = time.monotonic()
        while True:
            pods = self.workers()
            state = sorted(
                (pod["metadata"]["uid"], pod["spec"].get("nodeName", ""), "schedulingGates" in pod["spec"])
                for pod in pods
            )
            placements = job_placements(self.jobs, pods, self.labels)
            now = time.monotonic()
            if state != last_state or len(state) < sum(
                self.jobs[key] for key in self._started_jobs(placements)
            ):
                last_state, since = state, now
            needed = max(seconds, patience) if overlooked(placements, self.usable, self.labels) else seconds
            if now - since >= needed or now - began >= max(limit, 2 * patience):
                return placements
            time.sleep(0.2)  # noqa: TID251 - a time without changes has no event

    def _started_jobs(self, placements: dict[Key, JobPlacement]) -> list[Key]:
        """Returns the jobs that have pods or will soon have pods. Without Kueue, these are all jobs."""
        if not self.queue:
            return list(placements)
        jobs = (self.api.get("/apis/kubeflow.org/v2beta1/mpijobs") or {}).get("items", [])
        suspended = {
            (job["metadata"]["namespace"], job["metadata"]["name"])
            for job in jobs
            if job["spec"]["runPolicy"].get("suspend")
        }
        used = {name for job_placement in placements.values() for name in job_placement.nodes}
        return [
            key
            for key, workers in self.jobs.items()
            # If units are free for a suspended job, Kueue will soon admit it.
            if key not in suspended or wholly_free(workers, self.usable, used, self.labels)
        ]

    def wait(
        self, condition: Callable[[dict[Key, JobPlacement]], object], seconds: float = PATIENCE
    ) -> dict[Key, JobPlacement]:
        """Watches the workers until a condition holds for the placement of jobs, and returns the placement.

        Raises:
            NotYetError: The condition does not hold in time. The message has the last state and the logs.
        """

        def holds(pods: Object) -> object:
            return condition(job_placements(self.jobs, self._end_deleted(pods["items"]), self.labels))

        with self._with_logs():
            pods = self.plane.kubectl.wait_for(holds, "pods", "-A", "-l", WORKER, timeout=seconds)
        return job_placements(self.jobs, pods["items"], self.labels)

    def follow(self, key: Key, condition: Callable[[list[Object]], object]) -> list[Object]:
        """Watches the pods of a job until a condition holds for them, and returns the pods.

        Raises:
            NotYetError: See `wait`.
        """
        inside = self.plane.kubectl.in_namespace(key[0])
        with self._with_logs():
            pods = inside.wait_for(
                lambda pods: condition(pods["items"]), "pods", "-l", f"{JOB_NAME}={key[1]}"
            )
        return list(pods["items"])

    @contextlib.contextmanager
    def _with_logs(self) -> Iterator[None]:
        """Adds the logs of the programs that place jobs to the message of an error."""
        try:
            yield
        except NotYetError as error:
            messages = [
                f"{program.name}:\n{program.tail()}"
                for program in self.plane.programs.running
                if program.name.startswith(("placement", "kueue", "mpi-operator"))
            ]
            raise NotYetError("\n\n".join([str(error), *messages])) from None

    def cordon(self, name: str, *, cordoned: bool = True) -> None:
        """Makes a node unschedulable, or schedulable again."""
        operation = {"op": "add", "path": "/spec/unschedulable", "value": cordoned}
        self.api.patch(f"/api/v1/nodes/{name}", [operation])
        (self.sick.add if cordoned else self.sick.discard)(name)

    def as_program(self) -> KubernetesApi:
        """Returns a client of the API server with the rights of the program."""
        return connect(self.plane.account(NAMESPACE, ACCOUNT))


@contextlib.contextmanager
def staged(  # noqa: PLR0913, PLR0917 - the parts of a stage
    folder: Path,
    policy: str = "placement",
    ultraservers: int | list[nodes.Node] = 6,
    say: Callable[[str], None] | None = None,
    plane: type[ControlPlane] = ControlPlane,
    rows: str = "",
) -> Iterator[Stage]:
    """Yields a cluster with the webhook for a policy. The caller starts the placement program if needed.

    With ``base``, the cluster has all objects of the manifests, including the guard. With ``claims``, it has
    a DeviceClass and claim templates, the webhook receives all kinds of job, and nodes have the DRA driver if
    ``ultraservers`` is a number. ``rows`` are added to the table, except with ``base``.
    """
    with contextlib.ExitStack() as stack:
        control_plane = stack.enter_context(plane(folder, say=say))
        claims = policy == "claims"
        fleet = nodes.plain_nodes(1)
        if isinstance(ultraservers, int):
            servers = nodes.ultraserver_nodes(ultraservers)
            fleet += nodes.with_driver(servers) if claims else servers
        else:
            fleet += ultraservers
        nodes.create(control_plane.kubectl, fleet)
        if claims:
            control_plane.kubectl.create(nodes.device_class())
        for team in TEAMS:
            in_team = control_plane.kubectl.create_namespace(team)
            if claims:
                in_team.run("apply", "-f", str(nodes.CLAIMS))
        control_plane.kubectl.create_namespace(NAMESPACE)
        if policy == "base":
            rules = placement.install(control_plane)
        else:
            placement.install_rights(control_plane)
            rules = folder / "rules.yaml"
            rules.write_text(table(policy) + rows, encoding="utf-8")
        server = webhook.start(control_plane.programs, folder / "webhook", rules)
        document = webhook.configuration(server, values={"kinds": ["all"]} if claims else None)
        stack.enter_context(webhook.register(control_plane.kubectl.in_namespace(TEAMS[0]), document))
        metadata_list = [node["metadata"] for node in fleet if node["kind"] == "Node"]
        labels = {metadata["name"]: metadata["labels"] for metadata in metadata_list}
        api = connect(control_plane.kubeconfig)
        stage = Stage(control_plane, api, labels, policy=policy, rules=rules, claims=claims)
        if policy == "kueue":
            kueue.start(control_plane)
            kueue.queues(control_plane, *TEAMS)
            stage.queue = kueue.LOCAL_QUEUE
        yield stage


def _has_no_owned(objects: Object) -> bool:
    """Returns whether no object has an MPIJob as its owner."""
    owners = [owner for item in objects["items"] for owner in item["metadata"].get("ownerReferences") or ()]
    return not any(owner["kind"] == "MPIJob" for owner in owners)


def make_sick(stage: Stage, share: float, randomness: random.Random) -> None:
    """Cordons a random node in each UltraServer of a random share of the UltraServers."""
    servers = sorted(
        {labels[nodes.SERVER_ID_4] for labels in stage.labels.values() if nodes.SERVER_ID_4 in labels}
    )
    for server in randomness.sample(servers, round(share * len(servers))):
        names = sorted(
            name for name, labels in stage.labels.items() if labels.get(nodes.SERVER_ID_4) == server
        )
        stage.cordon(randomness.choice(names))
