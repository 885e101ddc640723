"""Years of simulated time: with any events, every API server can always verify every replica."""

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
    files,
    installed,
    rotator,
)

MINUTE = timedelta(minutes=1)
TINY = timedelta(microseconds=1)


@dataclass
class World:
    """A cluster where every change reaches API servers and replicas at any time within the settling time."""

    wanted: Wanted
    api: FakeApi = field(default_factory=installed)
    clock: Clock = field(default_factory=Clock)
    past: list[tuple[datetime, Pair | None, tuple[Bundle, ...]]] = field(default_factory=list)
    others: list[Pair] = field(default_factory=list)

    def look(self) -> None:
        """Stores what is stored; a replica keeps the files of a Secret that is deleted."""
        pair = read_secret("tls", self.api.objects.get(SECRET), STORED_AT).pair
        if not pair and self.past:
            pair = self.past[-1][1]
        hooks = [
            read_hook(kind, name, self.api.objects[objects.webhook_configuration_path(kind, name)])
            for kind, name in TARGET.hooks
        ]
        bundles = tuple(held for hook in hooks for held in hook.bundles)
        if not self.past or self.past[-1][1:] != (pair, bundles):
            self.past.append((self.clock(), pair, bundles))

    def check(self) -> None:
        """No replica's leaf, the oldest that may be mounted included, fails any API server's bundle."""
        since = self.clock() - self.wanted.settle + TINY
        # What was stored at `since`, and everything later.
        start = max((i for i, (at, *_) in enumerate(self.past) if at <= since), default=0)
        recent = self.past[start:]
        self.past = recent
        for pair in {entry[1] for entry in recent}:
            served = PairSecret("tls", {}, pair, "no leaf", frozenset())
            for bundle in {held for entry in recent for held in entry[2]}:
                assert not why_refused(served, bundle, self.clock())

    def forward(self, span: timedelta) -> None:
        """Lets time pass; what was true before must hold until the last moment."""
        self.clock.forward(span)
        self.check()

    def run(self, **force: bool) -> timedelta:
        """Returns a pass, which may fail; returns how long nothing will have to be done."""
        try:
            outcome = rotator(self.api, self.clock, self.wanted).run(**force)
        except ApiError:
            rest = timedelta(0)
        else:
            rest = (outcome.last.until or self.clock()) - self.clock()
        self.look()
        self.check()
        return rest


@st.composite
def all_wanted(draw: st.DrawFn) -> Wanted:
    settle = draw(st.integers(1, 30)) * MINUTE
    leaf = settle * draw(st.integers(12, 5000))
    return Wanted(WANTED.names, leaf, leaf * draw(st.integers(1, 30)), settle)


Event = tuple[str, float]
"""What happens, and a number of which each kind of event makes what it needs."""

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
def _each_signature_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered = cache(is_signed_by)
    for module in ("authority", "inputs"):
        monkeypatch.setattr(f"certs.{module}.is_signed_by", remembered)


@pytest.mark.parametrize("event", DISTURBANCES, ids=lambda event: "-".join(map(str, event)))
def test_replicas_verify_at_rest_and_in_every_step_of_a_rotation(event: Event) -> None:
    rotation = [("ca", 0.0), ("due", 0.0), ("due", 1.0)]
    for disturbed in range(len(rotation) + 1):
        happen_all(World(WANTED), [("due", 1.0), *rotation[:disturbed], event, *rotation[disturbed:]])


@pytest.mark.soak
@settings(
    # Shrinking runs years of simulated time again and again, for minutes; the seed is enough to look at.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(all_wanted(), EVENTS)
def test_every_replica_verifies_under_every_caBundle_at_every_instant(  # noqa: N802
    wanted: Wanted, events: list[Event]
) -> None:
    happen_all(World(wanted), events)


def happen_all(world: World, events: list[Event]) -> None:
    """One after the other, each when the program has come back to it; then the installation comes to rest."""
    rest = world.run()
    for event, part in events:
        # The loop is late by up to a settling time.
        late = world.wanted.settle * part
        world.forward(rest + late if event == "due" else min(rest, late))
        rest = happen(world, event, part)
    # Left alone it comes to rest.
    for _ in range(8):
        world.forward(rest)
        rest = world.run()
        if at_rest(world):
            return
    raise AssertionError("an old authority is still trusted after eight passes")


def at_rest(world: World) -> bool:
    """Returns whether what is served is what is wanted, and nothing else is trusted."""
    stored = rotator(world.api, world.clock, world.wanted).read()
    return stored.authority.pair is not None and stored.has_wanted_issuer and stored.bundle == stored.anchors


def happen(world: World, event: str, part: float) -> timedelta:
    """Returns one event and the pass after it."""
    steady = at_rest(world)
    match event:
        case "lose leaf" if steady:  # else a leaf of the new authority is stored at once: see the decisions
            del world.api.objects[SECRET]
            world.look()
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
    """A person puts a certificate of one of two other authorities there, or one that cannot be served."""
    wanted, now = world.wanted, world.clock()
    world.others = world.others or [new_authority(now, timedelta(days=36500)) for _ in range(2)]
    signer = world.others[int(part * 1.99)]
    life = wanted.leaf_lifetime * (part or 1)
    pair = issue(signer, now, max(life, wanted.settle), wanted.names)
    trusted = [signer, *world.others][: 1 + int(part * 2.99)] if part < 0.9 else []
    data = files(pair.certificate_pem(), pair.key_pem(), bundle_pem({each.certificate for each in trusted}))
    world.api.put(PROVIDED_SECRET, {"metadata": {"name": "provided"}, "data": data})


def crash_after(api: FakeApi, writes: int) -> None:
    """The program dies after some writes."""

    def count(left: int) -> None:
        if left == 0:
            api.refuse = "/"
        api.before_write = lambda: count(left - 1)

    api.before_write = lambda: count(writes)
