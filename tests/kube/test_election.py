"""The election: one holder at a time, by its own watch, and never by comparing clocks."""

from dataclasses import dataclass

from kube.api import leases_path
from kube.election import MAX_WAIT_SECONDS, Elector
from tests.kube.fake import FakeApi

NAMESPACE = "hooks"
PATH = f"{leases_path(NAMESPACE)}/lease"


@dataclass
class Watch:
    """A clock that tests move."""

    seconds: float = 0.0

    def __call__(self) -> float:
        """Returns the seconds."""
        return self.seconds


def candidate(api: FakeApi, name: str, watch: Watch, duration: int = 30) -> Elector:
    return Elector(api, NAMESPACE, "lease", name, duration, {}, watch)


def test_the_first_candidate_leads_and_keeps_leading() -> None:
    api, watch = FakeApi(), Watch()
    one, two = candidate(api, "one", watch), candidate(api, "two", watch)
    assert one.lead()
    for _ in range(10):
        assert not two.lead()
        watch.seconds += 29
        assert one.lead()
    spec = api.objects[PATH]["spec"]
    assert spec["holderIdentity"] == "one"
    assert spec["leaseTransitions"] == 0
    assert spec["acquireTime"] < spec["renewTime"]


def test_a_silent_holder_is_followed_after_the_time_it_promised_and_not_before() -> None:
    api, watch = FakeApi(), Watch()
    candidate(api, "one", watch, duration=60).lead()
    two = candidate(api, "two", watch, duration=5)
    assert not two.lead()
    watch.seconds += 60
    assert not two.lead()
    watch.seconds += 1
    assert two.lead()
    assert api.objects[PATH]["spec"]["leaseTransitions"] == 1


def test_a_holder_that_promised_years_is_followed_after_minutes() -> None:
    """Otherwise a stolen token could stop the program for good, even after it is revoked."""
    api, watch = FakeApi(), Watch()
    candidate(api, "thief", watch).lead()
    spec = api.objects[PATH]["spec"]
    spec |= {"leaseDurationSeconds": 2**31 - 1, "renewTime": "2099-01-01T00:00:00.000000Z"}
    two = candidate(api, "two", watch)
    assert not two.lead()
    watch.seconds += MAX_WAIT_SECONDS
    assert not two.lead()
    watch.seconds += 1
    assert two.lead()


def test_a_new_candidate_waits_even_if_the_lease_is_old() -> None:
    api, watch = FakeApi(), Watch()
    candidate(api, "one", watch).lead()
    api.objects[PATH]["spec"]["renewTime"] = "2001-01-01T00:00:00.000000Z"  # its clock is wrong, say
    assert not candidate(api, "two", watch).lead()


def test_of_two_that_try_at_the_same_moment_one_leads() -> None:
    for held in (False, True):
        api, watch = FakeApi(), Watch()
        if held:
            candidate(api, "gone", watch).lead()
        one, two = candidate(api, "one", watch), candidate(api, "two", watch)
        if held:
            assert not one.lead()
            assert not two.lead()
            watch.seconds += 31
        results: list[bool] = []
        api.before_write = lambda two=two, results=results: results.append(two.lead())
        assert (one.lead(), results) == (False, [True])


def test_a_lease_that_is_given_back_is_free_at_once_and_only_its_holder_can() -> None:
    api, watch = FakeApi(), Watch()
    one, two = candidate(api, "one", watch), candidate(api, "two", watch)
    two.release()
    one.lead()
    two.release()
    assert not two.lead()
    one.release()
    assert two.lead()
    one.release()
    assert api.objects[PATH]["spec"]["holderIdentity"] == "two"
