"""A control plane with UltraServers, the webhook of a policy, and the placement program."""

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
from testbed.experiment.judge import Key, Standing, config_of, overlooked, standings, wholly_free
from testbed.mpijob import mpijob
from testbed.plane import kueue, nodes, placement, webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.jobs import JOB_NAME, ROLE, end
from testbed.plane.placement import ACCOUNT, NAMESPACE
from testbed.plane.process import Program
from testbed.waiting import PATIENCE, NotYetError
from webhook.rules.load import load_default

TEAMS = ("team-a", "team-b", "team-c")
MPIJOBS = "/apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs"
WORKER = f"{ROLE}=worker"
WORKERS = f"/api/v1/pods?labelSelector={quote(WORKER, safe='')}"
POLICIES = ("base", "placement", "claims", "kueue", "webhook", "document", "selector")
PLACING = ("base", "placement", "claims")
"""Those of which the program is a part."""
OWNED = ("jobs.batch", "services", "configmaps", "secrets")
"""The objects that mpi-operator creates for a job, besides its workers."""


def table(policy: str) -> str:
    """Returns the rule table of a policy."""
    if policy in {"placement", "claims"}:
        return placement.ROWS.read_text(encoding="utf-8")
    if policy == "kueue":
        return kueue.ROWS.read_text(encoding="utf-8")
    rows = load_default()
    off = [rule.name for rule in rows.rules if policy == "selector" and rule.name != "ultraserver-nodes"]
    head = {"apiVersion": rows.api_version, "kind": "RuleTable", "extends": "default"}
    if policy == "document":
        return json.dumps(head | {"extends": "aws-document", "values": {"initImage": "init"}})
    return json.dumps(head | {"rules": [{"name": name, "mode": "off"} for name in off]})


@dataclass
class Stage:
    """The cluster of a test or an experiment.

    Attributes:
        plane: The control plane.
        api: Its API server, as the administrator.
        labels: The labels of every node.
        sick: The nodes that are cordoned.
        jobs: The number of workers of every job that was applied and not deleted.
        policy: How jobs are placed.
        queue: The Kueue queue that jobs name, if any.
        rules: The rule table, if the program is to read it.
        claims: Whether jobs claim their nodes; a job's name says so.
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
        """The nodes of UltraServers that are wholly healthy."""
        broken = {self.labels[name][nodes.SERVER_ID_4] for name in self.sick}
        return {
            name
            for name, labels in self.labels.items()
            if nodes.SERVER_ID_4 in labels and labels[nodes.SERVER_ID_4] not in broken
        }

    @property
    def usable(self) -> set[str]:
        """The UltraServer nodes that are healthy themselves."""
        return {name for name, labels in self.labels.items() if nodes.SERVER_ID_4 in labels} - self.sick

    def start_program(self, kubeconfig: Path | None = None, **options: float | str) -> Program:
        """Starts ``python -m placement run``, under the account that the manifests give it."""
        self._programs += 1
        name = f"placement-{self._programs}"
        given = {"rules": self.rules} if self.rules else {}
        return placement.start(self.plane, name, kubeconfig, **given, **options)

    def apply(
        self,
        name: str,
        workers: int,
        namespace: str = TEAMS[0],
        more: Mapping[str, str] | None = None,
        **changes: object,
    ) -> Key:
        """Creates an MPIJob, with further labels and changes of its spec."""
        document = mpijob(workers, name=name)
        if self.claims:
            document = mpijob(workers, name=f"c-{name}", claim=nodes.template_name(config_of(workers)))
        document["spec"] |= changes
        document["metadata"]["labels"] = dict(more or {})
        return self.create(document, namespace)[0]

    def create(self, document: Object, namespace: str = TEAMS[0]) -> tuple[Key, Object]:
        """Creates an MPIJob, in the stage's queue if there is one; its key, and what is stored."""
        metadata = document["metadata"]
        if self.queue:
            metadata["labels"] = {kueue.QUEUE: self.queue} | metadata.get("labels", {})
        stored = self.api.create(MPIJOBS.format(namespace), document)
        key = (namespace, str(stored["metadata"]["name"]))
        self.jobs[key] = document["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]
        return key, stored

    def finish(self, key: Key) -> None:
        """Deletes a job and its pods at once: there is no kubelet that would end them."""
        namespace, name = key
        self.api.delete(f"{MPIJOBS.format(namespace)}/{name}")
        end(self.plane.kubectl.in_namespace(namespace), "pods", "-l", f"{JOB_NAME}={name}")
        del self.jobs[key]

    def clear(self) -> None:
        """Ends every job, uncordons every node, and waits until nothing is left that a job owned.

        mpi-operator gives a new job no pods while a Service, say, of its name is still the old one's, and
        looks again after pauses that double.
        """
        teams = {namespace for namespace, _ in self.jobs}
        for key in list(self.jobs):
            self.finish(key)
        for name in list(self.sick):
            self.cordon(name, cordoned=False)
        # Kueue finds a Workload by the job's name: a new job would be let in by an old one's.
        for kind in (*OWNED, *([kueue.WORKLOADS] if self.policy == "kueue" else [])):
            self.plane.kubectl.wait_for(_nobodys, kind, "-A")
        # A job that ends in the middle of its sync gets pods afterwards, and no kubelet ends them.
        for team in teams:
            end(self.plane.kubectl.in_namespace(team), "pods", "-l", JOB_NAME)

    def pods(self, key: Key) -> list[Object]:
        """Returns the pods of a job, by name."""
        pods = self.plane.kubectl.in_namespace(key[0]).get_json("pods", "-l", f"{JOB_NAME}={key[1]}")
        return sorted(pods["items"], key=lambda pod: str(pod["metadata"]["name"]))

    def workers(self) -> list[Object]:
        """Returns every worker pod; those that are being deleted are ended, as a kubelet would end them."""
        return self._ended([pod for page in self.api.pages(WORKERS) for pod in page["items"]])

    def _ended(self, pods: list[Object]) -> list[Object]:
        for metadata in (pod["metadata"] for pod in pods):
            if "deletionTimestamp" in metadata:
                with contextlib.suppress(ConflictError):  # its operator has already replaced it
                    self.end(metadata["namespace"], metadata["name"], {"uid": metadata["uid"]})
        return pods

    def end(self, namespace: str, name: str, only: Mapping[str, str] | None = None) -> None:
        """Deletes a pod at once; only the one with the given uid, if any."""
        self.api.delete(f"/api/v1/namespaces/{namespace}/pods/{name}", only, grace_seconds=0)

    def standings(self) -> dict[Key, Standing]:
        """Returns the UltraServers of every job."""
        return standings(self.jobs, self.workers(), self.labels)

    def quiet(self, seconds: float, most: float = 120.0, patience: float = 0.0) -> dict[Key, Standing]:
        """Returns the UltraServers of each job once nothing has changed for a while and all workers exist.

        Args:
            seconds: For how long.
            most: Seconds after which it is called anyway.
            patience: For how long, as long as nodes are held in part or there is room for a job that waits:
                on a busy machine another program may be about to do something.
        """
        last: list[tuple[str, str, bool]] = []
        began = since = time.monotonic()
        while True:
            pods = self.workers()
            bound = sorted(
                (pod["metadata"]["uid"], pod["spec"].get("nodeName", ""), "schedulingGates" in pod["spec"])
                for pod in pods
            )
            placed = standings(self.jobs, pods, self.labels)
            now = time.monotonic()
            if bound != last or len(bound) < sum(self.jobs[key] for key in self._let_in(placed)):
                last, since = bound, now
            enough = max(seconds, patience) if overlooked(placed, self.usable, self.labels) else seconds
            if now - since >= enough or now - began >= max(most, 2 * patience):
                return placed
            time.sleep(0.2)  # noqa: TID251 - that nothing changes is not an event

    def _let_in(self, now: dict[Key, Standing]) -> list[Key]:
        """Returns the jobs that have pods, or are about to: all of them, without Kueue."""
        if not self.queue:
            return list(now)
        jobs = (self.api.get("/apis/kubeflow.org/v2beta1/mpijobs") or {}).get("items", [])
        waits = {
            (job["metadata"]["namespace"], job["metadata"]["name"])
            for job in jobs
            if job["spec"]["runPolicy"].get("suspend")
        }
        taken = {name for standing in now.values() for name in standing.nodes}
        return [
            key
            for key, workers in self.jobs.items()
            # Kueue is still at work as long as there is room for a job that waits.
            if key not in waits or wholly_free(workers, self.usable, taken, self.labels)
        ]

    def wait(
        self, condition: Callable[[dict[Key, Standing]], object], seconds: float = PATIENCE
    ) -> dict[Key, Standing]:
        """Follows the workers until something holds for the placement of jobs, and returns that.

        Raises:
            NotYetError: It does not come about; with what was seen last, and what the programs say.
        """

        def holds(pods: Object) -> object:
            return condition(standings(self.jobs, self._ended(pods["items"]), self.labels))

        with self._explained():
            pods = self.plane.kubectl.wait_for(holds, "pods", "-A", "-l", WORKER, timeout=seconds)
        return standings(self.jobs, pods["items"], self.labels)

    def follow(self, key: Key, condition: Callable[[list[Object]], object]) -> list[Object]:
        """Follows the pods of a job, by name, until something holds for them, and returns them.

        Raises:
            NotYetError: See `wait`.
        """
        inside = self.plane.kubectl.in_namespace(key[0])
        with self._explained():
            pods = inside.wait_for(
                lambda pods: condition(pods["items"]), "pods", "-l", f"{JOB_NAME}={key[1]}"
            )
        return list(pods["items"])

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Adds the logs of the programs that place jobs to an error."""
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
        """Makes a node unschedulable, or schedulable."""
        operation = {"op": "add", "path": "/spec/unschedulable", "value": cordoned}
        self.api.patch(f"/api/v1/nodes/{name}", [operation])
        (self.sick.add if cordoned else self.sick.discard)(name)

    def as_program(self) -> KubernetesApi:
        """Returns the API server, as the program sees it."""
        return connect(self.plane.account(NAMESPACE, ACCOUNT))


@contextlib.contextmanager
def staged(  # noqa: PLR0913, PLR0917 - all that a stage is made of
    folder: Path,
    policy: str = "placement",
    ultraservers: int | list[nodes.Node] = 6,
    say: Callable[[str], None] | None = None,
    plane: type[ControlPlane] = ControlPlane,
    rows: str = "",
) -> Iterator[Stage]:
    """Yields a control plane with the webhook of a policy; the caller starts the program if it needs it.

    Of ``base`` it has the guard, too, and everything else as the manifests install it. Of ``claims`` there
    are DeviceClass and claim templates, all UltraServers have the driver unless their nodes and slices are
    given, and other kinds of job are sent, too. The table of other policies also has the given rows.
    """
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(plane(folder, say=say))
        claims = policy == "claims"
        fleet = nodes.plain_nodes(1)
        if isinstance(ultraservers, int):
            made = nodes.ultraserver_nodes(ultraservers)
            fleet += nodes.driven(made) if claims else made
        else:
            fleet += ultraservers
        nodes.create(running.kubectl, fleet)
        if claims:
            running.kubectl.create(nodes.device_class())
        for team in TEAMS:
            inside = running.kubectl.create_namespace(team)
            if claims:
                inside.run("apply", "-f", str(nodes.CLAIMS))
        running.kubectl.create_namespace(NAMESPACE)
        if policy == "base":
            rules = placement.install(running)
        else:
            placement.install_rights(running)
            rules = folder / "rules.yaml"
            rules.write_text(table(policy) + rows, encoding="utf-8")
        server = webhook.start(running.programs, folder / "webhook", rules)
        document = webhook.configuration(server, values={"kinds": ["all"]} if claims else None)
        stack.enter_context(webhook.registered(running.kubectl.in_namespace(TEAMS[0]), document))
        ours = [node["metadata"] for node in fleet if node["kind"] == "Node"]
        labels = {metadata["name"]: metadata["labels"] for metadata in ours}
        stage = Stage(running, connect(running.kubeconfig), labels, policy=policy, rules=rules, claims=claims)
        if policy == "kueue":
            kueue.start(running)
            kueue.queues(running, *TEAMS)
            stage.queue = kueue.LOCAL_QUEUE
        yield stage


def _nobodys(objects: Object) -> bool:
    """Returns whether no object is left that a job owned."""
    owners = [owner for item in objects["items"] for owner in item["metadata"].get("ownerReferences") or ()]
    return not any(owner["kind"] == "MPIJob" for owner in owners)


def make_sick(stage: Stage, share: float, chance: random.Random) -> None:
    """Cordons one node in a share of the UltraServers."""
    servers = sorted(
        {labels[nodes.SERVER_ID_4] for labels in stage.labels.values() if nodes.SERVER_ID_4 in labels}
    )
    for server in chance.sample(servers, round(share * len(servers))):
        members = sorted(
            name for name, labels in stage.labels.items() if labels.get(nodes.SERVER_ID_4) == server
        )
        stage.cordon(chance.choice(members))
