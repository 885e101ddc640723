"""Converts rows of a table of 0.2.0: kinds of job, and conditions of rules."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from contract.place import ENV, LABEL, NAME, PLACERS
from webhook.objects.tree import Path

T = TypeVar("T")

FUNCTIONS: Final = {"parent": "dirname", "smaller": "min", "counted": "count"}
"""Flags of a workload's field, each with the function that the field has now."""

FIXED: Final = {
    "nodeConfigEnv": "NEURON_ULTRASERVER_NODE_CONFIG",
    "otherwise": "helper",
    "started": "/status/startTime",
    "stopped": "/status/conditions[type=Suspended]/status",
    "active": "/status/replicaStatuses",
}
"""Keys that do not exist any more, each with the only value that there is now."""

QUOTING: Final = ("add", "warn", "deny")
"""Keys of a rule that can contain the placeholder of the job's name."""

Row = dict[str, Any]


class RefusedError(ValueError):
    """A value of a table that cannot be converted, with its path."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path


@contextmanager
def at(*path: str | int) -> Iterator[None]:
    """Adds a path to errors about what is read there.

    Raises:
        RefusedError: In place of every error.
    """
    try:
        yield
    except RefusedError as error:
        raise RefusedError((*path, *error.path), str(error)) from error
    except KeyError as error:
        raise RefusedError(path, f"{error.args[0]} is missing: add it") from error
    except (AttributeError, LookupError, TypeError) as error:
        raise RefusedError(path, "0.2.0 does not accept this value") from error
    except ValueError as error:
        raise RefusedError(path, str(error)) from error


def each(key: str, rows: Any, make: Callable[[Any], T]) -> Sequence[T]:  # noqa: ANN401 - as written
    """Returns the converted rows of a list; errors have their paths."""
    result = list[T]()
    with at(key):
        for number, row in enumerate(rows):
            with at(number):
                result.append(make(row))
    return result


def workload(row: Row) -> Row:
    """Returns a workload in the new form.

    Raises:
        ValueError: It has a value that is fixed now.
    """
    new = _without_fixed(row)
    if "fields" in row:
        new["fields"] = {name: _field(field) for name, field in row["fields"].items()}
    if "groups" in row:
        new["groups"] = each("groups", row["groups"], _group)
    if isinstance(row.get("updates"), dict):
        new["updates"] = _without_fixed(row["updates"])
    return new


def _without_fixed(row: Row) -> Row:
    for key in FIXED.keys() & row.keys():
        if row[key] != FIXED[key]:
            raise ValueError(f"{key} is always {FIXED[key]} now, not {row[key]}: remove it")
    return {key: value for key, value in row.items() if key not in FIXED}


def _field(field: Any) -> Any:  # noqa: ANN401 - a map, or a pointer alone
    if not isinstance(field, dict):
        return field
    new = {key: value for key, value in field.items() if key not in FUNCTIONS}
    flags = [flag for flag in FUNCTIONS if field.get(flag)]
    return new | {"function": FUNCTIONS[flags[0]]} if flags else new


def _group(row: Row) -> Row:
    new = _without_fixed(row)
    names = {"numbers": "count", "continues": "continues"}
    more = {name: new.pop(key) for key, name in names.items() if key in new}
    if "index" in new:
        first, *others = each("index", new.pop("index"), lambda term: _term(**term))
        new["number"] = first | ({"plus": others} if others else {}) | more
    return new


def _term(source: str, **more: Any) -> Row:  # noqa: ANN401 - factors
    at = {LABEL: "label", ENV: "env"}
    named: Row = {key: source.removeprefix(kind) for kind, key in at.items() if source.startswith(kind)}
    return (named or {"podName": source == NAME}) | more


def rule(row: Row) -> Row:
    """Returns a rule with the present names of placers and conditions.

    Raises:
        ValueError: It matches jobs by whether they have a name, and does not use the name.
    """
    with at("match"):
        named = row.get("match", {}).get("named")
    if named is False or (named and "$(job.name)" not in str([row.get(key) for key in QUOTING])):
        raise ValueError(
            f"rule {row['name']} has the condition named, which is gone: remove it (a rule that uses "
            "$(job.name) does not apply to jobs with a generateName)"
        )
    new = {key: rule(value) if key == "match" else value for key, value in row.items()}
    if "placer" in row:
        words = [PLACERS[word].value if word in PLACERS else word for word in texts(row, "placer")]
        new["placer"] = words if isinstance(row["placer"], list) else words[0]
    if new.get("named") is True:  # a rule that quotes the name leaves out jobs without one
        del new["named"]
    if names := texts(new, "volume"):
        del new["volume"]
        before = texts(new, "template") or [{}]
        every = [{**old, f"/spec/volumes[name={name}]/name": "Exists"} for old in before for name in names]
        new["template"] = every if every[1:] else every[0]
    return new


def texts(row: Row, key: str) -> list[Any]:
    """Returns the values of a key that is written as one value or as a list."""
    value = row.get(key, [])
    return value if isinstance(value, list) else [value]
