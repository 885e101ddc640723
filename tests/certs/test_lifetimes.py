"""Years of simulated time: whatever happens, every API server can verify every replica, all the time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from certs import api as paths
from certs import decide
from certs.api import StoreError
from certs.case import Policy
from certs.checks import unusable
from certs.decide import Action, Decision
from certs.held import Bundle, read_hook, read_serving
from tests.certs.fake import CA_SECRET, POLICY, SECRET, TARGET, Clock, FakeApi, installed, rotator

if TYPE_CHECKING:
    from cryptography import x509

    from certs.case import Case

MINUTE = timedelta(minutes=1)
TINY = timedelta(microseconds=1)


@dataclass
class World:
    """A cluster where every change reaches API servers and replicas at any time within the settling time."""

    policy: Policy
    api: FakeApi = field(default_factory=installed)
    clock: Clock = field(default_factory=Clock)
    past: list[tuple[datetime, object, tuple[Bundle, ...]]] = field(default_factory=list)
    leaves: int = 0

    def look(self) -> None:
        """Remember what is stored; a replica keeps the files of a Secret that is deleted."""
        raw = self.api.objects.get(SECRET)
        leaf = read_serving(raw).leaf if raw else None
        if leaf is None and self.past:
            leaf = self.past[-1][1]  # type: ignore[assignment]
        hooks = [
            read_hook(kind, name, self.api.objects[paths.webhook_configuration(kind, name)])
            for kind, name in TARGET.hooks
        ]
        bundles = tuple(held for hook in hooks for held in hook.bundles)
        if not self.past or self.past[-1][1:] != (leaf, bundles):
            self.leaves += bool(self.past) and self.past[-1][1] != leaf
            self.past.append((self.clock(), leaf, bundles))

    def check(self) -> None:
        """No replica's leaf, the oldest that may be mounted included, fails any API server's bundle."""
        since = self.clock() - self.policy.settle + TINY
        # What was stored at `since`, and everything later.
        start = max((i for i, (at, *_) in enumerate(self.past) if at <= since), default=0)
        recent = self.past[start:]
        self.past = recent
        for leaf in {entry[1] for entry in recent}:
            for bundle in {held for entry in recent for held in entry[2]}:
                assert not unusable(leaf, "no leaf", bundle, self.clock())  # type: ignore[arg-type]

    def forward(self, span: timedelta) -> None:
        """Let time pass; what was true before must hold until the last moment."""
        self.clock.forward(span)
        self.check()

    def run(self, **force: bool) -> timedelta:
        """A pass, which may fail; returns how long nothing will have to be done."""
        try:
            outcome = rotator(self.api, self.clock, self.policy).run(**force)
        except StoreError:
            rest = timedelta(0)
        else:
            rest = (outcome.last.until or self.clock()) - self.clock()
        self.look()
        self.check()
        return rest


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    settle = draw(st.integers(1, 30)) * MINUTE
    leaf = settle * draw(st.integers(12, 5000))
    return Policy(POLICY.dns_names, (), leaf, leaf * draw(st.integers(1, 30)), settle)


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["due", "due", "due", "soon", "leaf", "ca", "lose leaf", "lose ca", "crash", "refuse"]
        ),
        st.floats(0, 1),
    ),
    min_size=10,
    max_size=30,
)


@settings(
    # Shrinking runs years of simulated time again and again, for minutes; the seed is enough to look at.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(policies(), EVENTS)
def test_every_replica_verifies_under_every_caBundle_at_every_instant(  # noqa: N802
    policy: Policy, events: list[tuple[str, float]]
) -> None:
    world = World(policy)
    rest = world.run()
    for event, part in events:
        # The loop is late by up to a settling time.
        late = policy.settle * part
        world.forward(rest + late if event == "due" else min(rest, late))
        rest = happen(world, event, part)
    # Left alone it comes to rest with one authority.
    for _ in range(8):
        world.forward(rest)
        rest = world.run()
        if len(rotator(world.api, world.clock, policy).read().authority.bundle) == 1:
            return
    raise AssertionError("an old authority is still trusted after eight passes")


def happen(world: World, event: str, part: float) -> timedelta:
    """One event and the pass after it."""
    steady = len(rotator(world.api, world.clock, world.policy).read().authority.bundle) == 1
    match event:
        case "lose leaf" if steady:  # else a leaf of the new authority is stored at once: see the decisions
            del world.api.objects[SECRET]
            world.look()
        case "lose ca":
            del world.api.objects[CA_SECRET]
        case "crash":
            crash_after(world.api, int(part * 5))
            world.run(authority=part < 0.5, leaf=part >= 0.5)
            world.api.before_write = None
            world.api.refuse = ""
        case "refuse":
            world.api.refuse = ["PATCH", "PUT", "GET", "tls"][int(part * 3.99)]
            world.run(authority=part < 0.5)
            world.api.refuse = ""
    return world.run(authority=event == "ca", leaf=event == "leaf")


def crash_after(api: FakeApi, writes: int) -> None:
    """The program dies after some writes."""

    def count(left: int) -> None:
        if left == 0:
            api.refuse = "/"
        api.before_write = lambda: count(left - 1)

    api.before_write = lambda: count(writes)


def test_ten_years_of_an_undisturbed_installation() -> None:
    world = World(POLICY)
    start = world.clock()
    authorities: set[x509.Certificate] = set()
    rest = world.run()
    while world.clock() < start + timedelta(days=3650):
        world.forward(rest + timedelta(seconds=30))
        rest = world.run()
        authorities |= rotator(world.api, world.clock).read().authority.bundle
    assert len(authorities) == 4  # a new one after 3.3, 6.7 and 10 years
    assert 55 <= world.leaves <= 75  # one each 60 days, and one with each authority


def test_the_simulation_notices_an_order_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in ("_leaf_of_old_authority", "_old_authority_retires"):
        world = World(POLICY)
        world.run()
        world.forward(timedelta(days=1))
        hasty = [r for r in decide._ROWS if r.__name__ != "_leaf_of_old_authority"]  # noqa: SLF001
        if row == "_leaf_of_old_authority":
            hasty.insert(0, leaf_at_once)
        else:
            hasty = [retire_at_once if r.__name__ == row else r for r in decide._ROWS]  # noqa: SLF001
        with monkeypatch.context() as patch:
            patch.setattr(decide, "_ROWS", tuple(hasty))
            with pytest.raises(AssertionError):
                rotate_once(world)


def leaf_at_once(case: Case) -> Decision | None:
    """The mistake: a leaf of the new authority as soon as its caBundle is patched."""
    if case.stored.authority.trusted_since and not case.of_signer:
        return Decision(Action.ISSUE, "hasty")
    return None


def retire_at_once(case: Case) -> Decision | None:
    """The mistake: the old authority goes as soon as the new leaf is stored."""
    if len(case.bundle) > 1 and case.of_signer:
        return Decision(Action.BUNDLE, "hasty", frozenset({case.signer}))
    return None


def rotate_once(world: World) -> None:
    rest = world.run(authority=True)
    for _ in range(4):
        world.forward(rest)
        rest = world.run()
