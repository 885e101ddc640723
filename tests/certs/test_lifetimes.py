"""Tests that every API server can verify every replica at any time, in years of simulated time."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from certs import objects
from certs.authority import Pair, is_signed_by, issue, new_authority
from certs.inputs import Wanted, why_refused
from certs.objects import Bundle, PairSecret, bundle_pem, read_hook, read_secret
from contract.keys import STORED_AT
from kube.api import ApiError
from tests.certs.fake import (
    CA_SECRET,
    PROVIDED_SECRET,
    SECRET,
    TARGET,
    WANTED,
    Clock,
    FakeApi,
    create_api,
    files,
    rotator,
)

MINUTE = timedelta(minutes=1)
TINY = timedelta(microseconds=1)


@dataclass
class World:
    """A cluster where a change reaches each API server and replica at any time within the settling time."""

    wanted: Wanted
    api: FakeApi = field(default_factory=create_api)
    clock: Clock = field(default_factory=Clock)
    history: list[tuple[datetime, Pair | None, tuple[Bundle, ...]]] = field(default_factory=list)
    other_authorities: list[Pair] = field(default_factory=list)

    def record_state(self) -> None:
        """Adds the stored leaf and caBundles to the history. Replicas keep the files of a deleted Secret."""
        pair = read_secret("tls", self.api.objects.get(SECRET), STORED_AT).pair
        if not pair and self.history:
            pair = self.history[-1][1]
        hooks = [
            read_hook(kind, name, self.api.objects[objects.webhook_configuration_path(kind, name)])
            for kind, name in TARGET.hooks
        ]
        bundles = tuple(bundle for hook in hooks for bundle in hook.bundles)
        if not self.history or self.history[-1][1:] != (pair, bundles):
            self.history.append((self.clock(), pair, bundles))

    def check(self) -> None:
        """Asserts that each caBundle of the last settling time verifies each leaf of this time."""
        since = self.clock() - self.wanted.settle + TINY
        # The state at `since`, and all later states.
        start = max((i for i, (at, *_) in enumerate(self.history) if at <= since), default=0)
        recent = self.history[start:]
        self.history = recent
        for pair in {entry[1] for entry in recent}:
            served = PairSecret("tls", {}, pair, "no leaf", frozenset())
            for bundle in {bundle for entry in recent for bundle in entry[2]}:
                assert not why_refused(served, bundle, self.clock())

    def forward(self, span: timedelta) -> None:
        """Moves the clock, then checks that the leaves still verify."""
        self.clock.forward(span)
        self.check()

    def run(self, **force: bool) -> timedelta:
        """Runs a pass, which may fail, and returns the time until the next pass is due."""
        try:
            outcome = rotator(self.api, self.clock, self.wanted).run(**force)
        except ApiError:
            wait = timedelta(0)
        else:
            wait = (outcome.last.until or self.clock()) - self.clock()
        self.record_state()
        self.check()
        return wait


@st.composite
def wanted_certificates(draw: st.DrawFn) -> Wanted:
    settle = draw(st.integers(1, 30)) * MINUTE
    leaf = settle * draw(st.integers(12, 5000))
    return Wanted(WANTED.names, leaf, leaf * draw(st.integers(1, 30)), settle)


Event = tuple[str, float]
"""The kind of an event, and a number between 0 and 1. `apply_event` derives the details from the number."""

DISTURBANCES: list[Event] = [
    *(("leaf", 0.0), ("ca", 0.0), ("lose leaf", 0.0), ("lose ca", 0.0), ("withdraw", 0.0)),
    *(("crash", part) for part in (0.0, 0.2, 0.4, 0.6, 0.8)),
    *(("refuse", part) for part in (0.0, 0.3, 0.6, 1.0)),
    *(("provide", part) for part in (0.01, 0.4, 0.6, 0.8, 0.95)),
]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["due", "due", "due", "soon", "provide", *sorted({kind for kind, _ in DISTURBANCES})]
        ),
        st.floats(0, 1),
    ),
    min_size=10,
    max_size=30,
)


@pytest.fixture(autouse=True)
def _cache_signature_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    cached_check = cache(is_signed_by)
    for module in ("authority", "inputs"):
        monkeypatch.setattr(f"certs.{module}.is_signed_by", cached_check)


@pytest.mark.parametrize("event", DISTURBANCES, ids=lambda event: "-".join(map(str, event)))
def test_every_leaf_verifies_if_an_event_disturbs_any_step_of_a_rotation(event: Event) -> None:
    rotation = [("ca", 0.0), ("due", 0.0), ("due", 1.0)]
    for position in range(len(rotation) + 1):
        apply_events(World(WANTED), [("due", 1.0), *rotation[:position], event, *rotation[position:]])


@pytest.mark.soak
@settings(
    # No shrinking, which would simulate years again for minutes. The seed is enough to repeat a failure.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(wanted_certificates(), EVENTS)
def test_every_leaf_verifies_with_every_caBundle_at_any_time(  # noqa: N802
    wanted: Wanted, events: list[Event]
) -> None:
    apply_events(World(wanted), events)


def apply_events(world: World, events: list[Event]) -> None:
    """Applies the events in order. Afterwards, passes without events must complete the rotation."""
    wait = world.run()
    for event, part in events:
        # A pass is late by up to one settling time.
        late = world.wanted.settle * part
        world.forward(wait + late if event == "due" else min(wait, late))
        wait = apply_event(world, event, part)
    for _ in range(8):
        world.forward(wait)
        wait = world.run()
        if is_complete(world):
            return
    raise AssertionError("an old authority is still trusted after eight passes")


def is_complete(world: World) -> bool:
    """Returns whether the wanted issuer signed the stored leaf, and only this issuer is trusted."""
    stored = rotator(world.api, world.clock, world.wanted).read()
    return stored.authority.pair is not None and stored.has_wanted_issuer and stored.bundle == stored.anchors


def apply_event(world: World, event: str, part: float) -> timedelta:
    """Applies an event and runs a pass. Returns the time until the next pass is due."""
    was_complete = is_complete(world)
    match event:
        case "lose leaf" if was_complete:  # in a rotation, a leaf would be issued that may not be trusted yet
            del world.api.objects[SECRET]
            world.record_state()
        case "lose ca":
            del world.api.objects[CA_SECRET]
        case "provide":
            provide(world, part)
        case "withdraw":
            world.api.objects.pop(PROVIDED_SECRET, None)
        case "crash":
            crash_after(world.api, int(part * 5))
            world.run(replace_authority=part < 0.5, replace_leaf=part >= 0.5)
            world.api.before_write = None
            world.api.refuse = ""
        case "refuse":
            world.api.refuse = ["PATCH", "PUT", "GET", "tls"][int(part * 3.99)]
            world.run(replace_authority=part < 0.5)
            world.api.refuse = ""
    return world.run(replace_authority=event == "ca", replace_leaf=event == "leaf")


def provide(world: World, part: float) -> None:
    """Stores a provided certificate of one of two other authorities. For some ``part``, it cannot be used."""
    wanted, now = world.wanted, world.clock()
    world.other_authorities = world.other_authorities or [
        new_authority(now, timedelta(days=36500)) for _ in range(2)
    ]
    signer = world.other_authorities[int(part * 1.99)]
    life = wanted.leaf_lifetime * (part or 1)
    pair = issue(signer, now, max(life, wanted.settle), wanted.names)
    trusted = [signer, *world.other_authorities][: 1 + int(part * 2.99)] if part < 0.9 else []
    data = files(pair.certificate_pem(), pair.key_pem(), bundle_pem({ca.certificate for ca in trusted}))
    world.api.put(PROVIDED_SECRET, {"metadata": {"name": "provided"}, "data": data})


def crash_after(api: FakeApi, writes: int) -> None:
    """Makes every call fail after some writes, as if the program had ended."""

    def count(left: int) -> None:
        if left == 0:
            api.refuse = "/"
        api.before_write = lambda: count(left - 1)

    api.before_write = lambda: count(writes)
