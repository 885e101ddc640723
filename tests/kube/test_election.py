"""Tests of the leader election: one replica holds the Lease, and clocks of replicas are not compared."""

from dataclasses import dataclass

from kube.api import leases_path
from kube.election import MAX_WAIT_SECONDS, Elector
from tests.kube.fake import FakeApi

NAMESPACE = "hooks"
PATH = f"{leases_path(NAMESPACE)}/lease"


@dataclass
class Clock:
    """A clock that only a test moves."""

    seconds: float = 0.0

    def __call__(self) -> float:
        """Returns the time in seconds."""
        return self.seconds


def candidate(api: FakeApi, name: str, clock: Clock, duration: int = 30) -> Elector:
    return Elector(api, NAMESPACE, "lease", name, duration, {}, clock)


def test_the_first_candidate_leads_and_keeps_leading() -> None:
    api, clock = FakeApi(), Clock()
    first, second = candidate(api, "one", clock), candidate(api, "two", clock)
    assert first.lead()
    for _ in range(10):
        assert not second.lead()
        clock.seconds += 29
        assert first.lead()
    spec = api.objects[PATH]["spec"]
    assert spec["holderIdentity"] == "one"
    assert spec["leaseTransitions"] == 0
    assert spec["acquireTime"] < spec["renewTime"]


def test_a_lease_that_is_not_renewed_can_be_taken_after_its_own_duration() -> None:
    api, clock = FakeApi(), Clock()
    candidate(api, "one", clock, duration=60).lead()
    second = candidate(api, "two", clock, duration=5)
    assert not second.lead()
    clock.seconds += 60
    assert not second.lead()
    clock.seconds += 1
    assert second.lead()
    assert api.objects[PATH]["spec"]["leaseTransitions"] == 1


def test_a_lease_with_a_duration_of_years_can_be_taken_after_ten_minutes() -> None:
    """Protects the program from a stolen token, which could otherwise stop it for years."""
    api, clock = FakeApi(), Clock()
    candidate(api, "thief", clock).lead()
    spec = api.objects[PATH]["spec"]
    spec |= {"leaseDurationSeconds": 2**31 - 1, "renewTime": "2099-01-01T00:00:00.000000Z"}
    second = candidate(api, "two", clock)
    assert not second.lead()
    clock.seconds += MAX_WAIT_SECONDS
    assert not second.lead()
    clock.seconds += 1
    assert second.lead()


def test_a_new_candidate_waits_even_if_the_lease_is_old() -> None:
    api, clock = FakeApi(), Clock()
    candidate(api, "one", clock).lead()
    api.objects[PATH]["spec"]["renewTime"] = "2001-01-01T00:00:00.000000Z"  # a wrong clock
    assert not candidate(api, "two", clock).lead()


def test_only_one_of_two_simultaneous_candidates_leads() -> None:
    for is_held in (False, True):
        api, clock = FakeApi(), Clock()
        if is_held:
            candidate(api, "gone", clock).lead()
        first, second = candidate(api, "one", clock), candidate(api, "two", clock)
        if is_held:
            assert not first.lead()
            assert not second.lead()
            clock.seconds += 31
        results: list[bool] = []
        api.before_write = lambda second=second, results=results: results.append(second.lead())
        assert (first.lead(), results) == (False, [True])


def test_a_released_lease_is_free_at_once_and_only_its_holder_can_release_it() -> None:
    api, clock = FakeApi(), Clock()
    first, second = candidate(api, "one", clock), candidate(api, "two", clock)
    second.release()
    first.lead()
    second.release()
    assert not second.lead()
    first.release()
    assert second.lead()
    first.release()
    assert api.objects[PATH]["spec"]["holderIdentity"] == "two"
