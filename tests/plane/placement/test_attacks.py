"""A user uses all rights in a namespace against others' jobs: without the guard, and with it."""

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from contract.place import read
from testbed.experiment import attacks, hostile
from testbed.experiment.attacks import ATTACKS, HALF, PORT, PRIORITIES, REFUSED, Attack, Tenant
from testbed.experiment.judge import Key
from testbed.experiment.stage import TEAMS, Stage
from testbed.mpijob import mpijob
from testbed.plane import nodes
from testbed.plane.jobs import template
from testbed.plane.process import Program
from tests.plane.guard import people

_numbers = itertools.count()


@dataclass
class Siege:
    """A program that is attacked by a tenant, next to a job that runs."""

    stage: Stage
    program: Program
    tenant: Tenant
    running: Key

    def withstands(self, attack: Attack) -> None:
        """Asserts that a job is placed whole in a test's time, and that the program does nothing else."""
        victim = mpijob(name=f"victim-{next(_numbers)}")
        self.tenant.victim = f"{TEAMS[0]}.{victim['metadata']['name']}"
        worker = template(victim, "Worker")["spec"]["containers"][0]
        worker["ports"] = [{"containerPort": PORT, "hostPort": PORT}]
        with contextlib.closing(attack(self.tenant)) as goes_on:
            victim["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = next(goes_on)
            before = self.others(attack)
            key, _ = self.stage.create(victim)
            self.stage.wait(lambda jobs: jobs[key].whole)
            assert before <= self.others(attack), "a Pod was touched"
        log = self.program.log.read_text(encoding="utf-8")
        assert not [word for word in ("mistake", "Traceback", "without all its nodes") if word in log], log
        assert hostile.peak(self.program) < hostile.MEMORY

    def others(self, attack: Attack) -> set[str]:
        """Returns the Pods of the job that runs, and of the attacker's those that stay without them."""
        result = self.stage.pods(self.running)
        if attack is not attacks.jobs_again_and_again:
            result += self.tenant.kubectl.get_json("pods")["items"]
        texts = [pod["metadata"] for pod in result]
        return {
            pod["uid"]
            for pod in texts
            if "deletionTimestamp" not in pod or hostile.FOR_EVER in pod.get("finalizers", ())
        }


@pytest.fixture(scope="module")
def besieged(whole_stage: Stage) -> Iterator[Siege]:
    """Three UltraServers, on one of which a job runs, and a user with all rights in a namespace."""
    stage, admin = whole_stage, whole_stage.plane.kubectl

    def server(name: str) -> tuple[str, str]:
        return stage.labels[name].get(nodes.SERVER_ID_4, ""), name

    plain, *fleet = sorted(stage.labels, key=server)
    for name in fleet[12:]:
        stage.cordon(name)
    program = stage.start_program(interval_seconds=2)
    running = stage.apply("running", HALF, TEAMS[1])
    taken = stage.wait(lambda jobs: jobs[running].whole)[running].nodes
    for name, value in PRIORITIES.items():
        admin.run("create", "priorityclass", name, f"--value={value}")
    free = [name for name in fleet[:12] if name not in taken]
    weak = hostile.intruder(admin)
    inside = admin.in_namespace(hostile.NAMESPACE)
    inside.run("create", "role", "all", "--verb=*", "--resource=*.*")
    inside.run("create", "rolebinding", "all", "--role=all", "--user=editor")
    tenant = Tenant(weak.acting_as("editor"), weak, plain, free, ".".join(running))
    yield Siege(stage, program, tenant, running)
    stage.plane.programs.stop(program)
    stage.api.delete(f"/api/v1/namespaces/{hostile.NAMESPACE}")
    stage.clear()


@pytest.fixture
def siege(besieged: Siege) -> Iterator[Siege]:
    """The same, without what an attack before it left."""
    yield besieged
    besieged.tenant.clear()
    for key in set(besieged.stage.jobs) - {besieged.running}:
        besieged.stage.finish(key)


@pytest.fixture(scope="module")
def guard(besieged: Siege, helm: None) -> Iterator[None]:
    """The guard."""
    del helm
    admin = besieged.stage.plane.kubectl
    forged = people.WORKER, people.REPELLING, people.plain_job(people.GATES)
    with people.guarding(admin, admin.in_namespace(TEAMS[0]), *forged):
        yield


BESIDE_THE_GUARD = [
    *REFUSED,
    *(pytest.param(one, marks=pytest.mark.soak) for one in ATTACKS if one not in REFUSED),
]


def named(attack: object) -> str:
    return getattr(attack, "__name__", "")


@pytest.mark.parametrize("attack", ATTACKS, ids=named)
def test_a_tenant_keeps_no_job_of_others_from_its_nodes(attack: Attack, siege: Siege) -> None:
    siege.withstands(attack)
    assert set(siege.tenant.answers) <= {200, 201}, "it was not attacked"


@pytest.mark.usefixtures("guard")
@pytest.mark.parametrize("attack", BESIDE_THE_GUARD, ids=named)
def test_the_guard_refuses_what_is_not_true_and_what_only_it_can_stop(attack: Attack, siege: Siege) -> None:
    siege.withstands(attack)
    assert set(siege.tenant.answers) == {403} or attack not in REFUSED


@pytest.mark.usefixtures("guard")
def test_jobs_are_placed_with_the_guard_and_a_suspended_one_is_resized(siege: Siege) -> None:
    stage, ada = siege.stage, siege.stage.plane.kubectl.in_namespace(TEAMS[0]).acting_as(people.ADA)
    ranks = stage.apply("ranks", 3, runLauncherAsWorker=True)
    train = stage.apply("train", 8, runPolicy={"suspend": True})
    resized = people.patches(ada, "mpijob/train", {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 4}}}})
    assert resized.returncode == 0, resized.stderr
    place = read(template(ada.get_json("mpijob", "train"), "Worker")["metadata"])
    assert place
    assert place.workers == 4
    stage.jobs[train] = 4
    assert people.patches(ada, "mpijob/train", {"spec": {"runPolicy": {"suspend": False}}}).returncode == 0
    stage.wait(lambda jobs: jobs[train].whole and jobs[ranks].placed)
