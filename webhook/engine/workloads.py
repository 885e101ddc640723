"""The workload rows of a rule table: kinds of object, their groups of pods, their fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.engine.places import Place

WORKER = "worker"
"""The role of every group that takes nodes, whatever else it is."""

ANY = "any"
"""The role of every group there is."""


@dataclass(frozen=True)
class Field:
    """A value of the object that fragments may quote as ``$(field.NAME)``.

    Attributes:
        path: where it is in the object.
        default: what stands for it where it is missing or null.
        parent: it is a path of files, and the directory that it is in is meant.
        times: name of another field: both are whole numbers, and their product is meant.
        plus: the same, and what is added to it, after `times`.
        divided_by: the same, and what it is divided by, rounded down, last of all.
        smaller: it is a quantity, and the smaller of it and the default is meant.
    """

    path: Place
    default: str
    parent: bool = False
    times: str | None = None
    plus: str | None = None
    divided_by: str | None = None
    smaller: bool = False

    def others(self) -> dict[str, str]:
        """The fields that it is made with: names by what is done with them, as the table calls that."""
        said = {"times": self.times, "plus": self.plus, "dividedBy": self.divided_by}
        return {key: name for key, name in said.items() if name is not None}


@dataclass(frozen=True)
class Factor:
    """A number of a job: one that it says, or a constant.

    Attributes:
        path: where the job says it; None for a constant.
        default: the constant, and what stands for a number that the job does not say.
    """

    path: Place | None
    default: int = 0


@dataclass(frozen=True)
class Group:
    """One set of equal pods of a workload.

    Attributes:
        role: what rules call it.
        template: place of its pod template; the empty place where the object is a Pod itself.
        replicas: how many pods; the product of these.
        takes_nodes: whether each of its pods takes a node: always, never, or where the job says ``true``.
    """

    role: str
    template: Place
    replicas: tuple[Factor, ...] = (Factor(None, 1),)
    takes_nodes: bool | Place = False


@dataclass(frozen=True)
class Suspending:
    """Where an object of a kind that can be suspended says that its pods are still to come.

    Attributes:
        suspend: ``true`` where it is, or is to be, suspended.
        started: there once the operator has found it not suspended for the first time.
        stopped: ``True`` once the pods of an object that was suspended later are gone.
        active: how many pods it has: a map of groups with ``active`` each.
        keeps: role whose Job, ``NAME-ROLE``, is made while the object is suspended.
    """

    suspend: Place
    started: Place
    stopped: Place
    active: Place
    keeps: str | None = None


ALWAYS = "always"
"""In place of that: an update gets back what it takes out, whatever the object's state."""


@dataclass(frozen=True)
class Workload:
    """A kind that the webhook knows how to open.

    Attributes:
        kinds: ``group/version/Kind`` each.
        groups: its sets of pods.
        when: allowed values by name of a field; an object that has others is not this workload.
        node_config_env: an environment variable in the job's own containers that names the node config.
        updates: when an update keeps what was added; ``ALWAYS``, or None for never.
    """

    name: str
    kinds: tuple[str, ...]
    groups: tuple[Group, ...]
    when: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fields: Mapping[str, Field] = field(default_factory=dict)
    node_config_env: str | None = None
    updates: Suspending | str | None = None

    @property
    def takes_nodes(self) -> bool:
        """Whether it has a group that can take nodes; only then it has a size, and so a shape."""
        return any(group.takes_nodes is not False for group in self.groups)

    def roles(self) -> tuple[str, ...]:
        """The roles that rules can match: those of its groups, and ``worker`` for what takes nodes."""
        named = [group.role for group in self.groups]
        return tuple(dict.fromkeys([*named, WORKER] if self.takes_nodes else named))
