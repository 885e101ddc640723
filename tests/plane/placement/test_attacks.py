"""Tests of a user with all rights in a namespace who attacks other jobs, with and without the guard."""

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from contract.placement import read
from testbed.experiment import attacks, hostile
from testbed.experiment.attacks import ATTACKS, HALF, PORT, PRIORITIES, REFUSED, Attack, Tenant
from testbed.experiment.judge import Key
from testbed.experiment.stage import TEAMS, Stage
from testbed.mpijob import mpijob
from testbed.plane import nodes
from testbed.plane.jobs import template
from testbed.plane.process import Program
from tests.plane.guard import people

_victim_numbers = itertools.count()


@dataclass
class Scenario:
    """The placement program, a user who attacks it, and another user's job that runs."""

    stage: Stage
    program: Program
    tenant: Tenant
    running: Key

    def assert_withstands(self, attack: Attack) -> None:
        """Runs an attack; asserts that a job is placed whole, and that all `other_pods` stay."""
        victim = mpijob(name=f"victim-{next(_victim_numbers)}")
        self.tenant.victim_job = f"{TEAMS[0]}.{victim['metadata']['name']}"
        worker = template(victim, "Worker")["spec"]["containers"][0]
        worker["ports"] = [{"containerPort": PORT, "hostPort": PORT}]
        with contextlib.closing(attack(self.tenant)) as running_attack:
            victim["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = next(running_attack)
            before = self.other_pods(attack)
            key, _ = self.stage.create(victim)
            self.stage.wait(lambda jobs: jobs[key].whole)
            assert before <= self.other_pods(attack), "the program deleted another Pod"
        log = self.program.log.read_text(encoding="utf-8")
        assert not [word for word in ("mistake", "Traceback", "without all its nodes") if word in log], log
        assert hostile.peak_memory(self.program) < hostile.MEMORY

    def other_pods(self, attack: Attack) -> set[str]:
        """Returns the uids of the running job's Pods, and of the attacker's if the attack ends no Pods."""
        result = self.stage.pods(self.running)
        if attack is not attacks.jobs_without_end:
            result += self.tenant.kubectl.get_json("pods")["items"]
        metadata = [pod["metadata"] for pod in result]
        return {
            pod["uid"]
            for pod in metadata
            if "deletionTimestamp" not in pod or hostile.FOR_EVER in pod.get("finalizers", ())
        }


@pytest.fixture(scope="module")
def module_scenario(package_stage: Stage) -> Iterator[Scenario]:
    """Three UltraServers, on one of which a job runs, and a user with all rights in a namespace."""
    stage, admin = package_stage, package_stage.plane.kubectl

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
    weak = hostile.create_intruder(admin)
    inside = admin.in_namespace(hostile.NAMESPACE)
    inside.run("create", "role", "all", "--verb=*", "--resource=*.*")
    inside.run("create", "rolebinding", "all", "--role=all", "--user=editor")
    tenant = Tenant(weak.acting_as("editor"), weak, plain, free, ".".join(running))
    yield Scenario(stage, program, tenant, running)
    stage.plane.programs.stop(program)
    stage.api.delete(f"/api/v1/namespaces/{hostile.NAMESPACE}")
    stage.clear()


@pytest.fixture
def scenario(module_scenario: Scenario) -> Iterator[Scenario]:
    """The scenario of the module, without the remains of earlier attacks."""
    yield module_scenario
    module_scenario.tenant.clear()
    for key in set(module_scenario.stage.jobs) - {module_scenario.running}:
        module_scenario.stage.finish(key)


@pytest.fixture(scope="module")
def guard(module_scenario: Scenario, helm: None) -> Iterator[None]:
    """Installs the guard."""
    del helm
    admin = module_scenario.stage.plane.kubectl
    forged = people.WORKER, people.REPELLING, people.plain_job(people.GATES)
    with people.guarding(admin, admin.in_namespace(TEAMS[0]), *forged):
        yield


ATTACKS_WITH_GUARD = [
    *REFUSED,
    *(pytest.param(attack, marks=pytest.mark.soak) for attack in ATTACKS if attack not in REFUSED),
]


def attack_name(attack: object) -> str:
    return getattr(attack, "__name__", "")


@pytest.mark.parametrize("attack", ATTACKS, ids=attack_name)
def test_an_attack_does_not_keep_another_users_job_from_its_nodes(attack: Attack, scenario: Scenario) -> None:
    scenario.assert_withstands(attack)
    assert set(scenario.tenant.statuses) <= {200, 201}, "the API server accepts the attack"


@pytest.mark.usefixtures("guard")
@pytest.mark.parametrize("attack", ATTACKS_WITH_GUARD, ids=attack_name)
def test_the_guard_refuses_forged_pods_and_no_other_attack_stops_jobs(
    attack: Attack, scenario: Scenario
) -> None:
    scenario.assert_withstands(attack)
    assert set(scenario.tenant.statuses) == {403} or attack not in REFUSED


@pytest.mark.usefixtures("guard")
def test_with_the_guard_jobs_are_placed_and_a_suspended_job_is_resized(scenario: Scenario) -> None:
    stage, ada = scenario.stage, scenario.stage.plane.kubectl.in_namespace(TEAMS[0]).acting_as(people.ADA)
    ranks = stage.apply("ranks", 3, runLauncherAsWorker=True)
    train = stage.apply("train", 8, runPolicy={"suspend": True})
    resized = people.send_patch(
        ada, "mpijob/train", {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 4}}}}
    )
    assert resized.returncode == 0, resized.stderr
    placement = read(template(ada.get_json("mpijob", "train"), "Worker")["metadata"])
    assert placement
    assert placement.workers == 4
    stage.jobs[train] = 4
    assert people.send_patch(ada, "mpijob/train", {"spec": {"runPolicy": {"suspend": False}}}).returncode == 0
    stage.wait(lambda jobs: jobs[train].whole and jobs[ranks].placed)
