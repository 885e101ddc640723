"""Converts rows of a table of release 0.2.0: workloads and rules."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from contract.placement import ENV, LABEL, NAME, PLACERS
from webhook.objects.tree import Path
from webhook.rules import messages

T = TypeVar("T")

FUNCTIONS: Final = {"parent": "dirname", "smaller": "min", "counted": "count"}
"""The flags of a workload's field, each with the function that replaces the flag."""

FIXED_VALUES: Final = {
    "nodeConfigEnv": "NEURON_ULTRASERVER_NODE_CONFIG",
    "otherwise": "helper",
    "started": "/status/startTime",
    "stopped": "/status/conditions[type=Suspended]/status",
    "active": "/status/replicaStatuses",
}
"""The keys that are removed, each with the value that is now used in every table."""

KEYS_WITH_NAME: Final = ("add", "warn", "deny")
"""The keys of a rule that can contain the placeholder of the job's name."""

Row = dict[str, Any]


class RefusedError(ValueError):
    """The error for a value of a table that cannot be converted. It has the path of the value."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path


@contextmanager
def errors_at(*path: str | int) -> Iterator[None]:
    """Adds the path to errors that are raised in its ``with`` block, which reads the value at the path.

    Raises:
        RefusedError: The block raises an error.
    """
    try:
        yield
    except RefusedError as error:
        raise RefusedError((*path, *error.path), str(error)) from error
    except KeyError as error:
        raise RefusedError(path, messages.missing(error.args[0])) from error
    except (AttributeError, LookupError, TypeError) as error:
        raise RefusedError(path, messages.NOT_ACCEPTED) from error
    except ValueError as error:
        raise RefusedError(path, str(error)) from error


def converted_rows(key: str, rows: Any, convert: Callable[[Any], T]) -> Sequence[T]:  # noqa: ANN401 - not checked
    """Returns the converted rows of the list with the key; errors have the path of the row."""
    result = list[T]()
    with errors_at(key):
        for number, row in enumerate(rows):
            with errors_at(number):
                result.append(convert(row))
    return result


def convert_workload(row: Row) -> Row:
    """Returns a workload in the present form.

    Raises:
        ValueError: A removed key has another value than in `FIXED_VALUES`.
    """
    new = _without_fixed(row)
    if "fields" in row:
        new["fields"] = {name: _convert_field(field) for name, field in row["fields"].items()}
    if "groups" in row:
        new["groups"] = converted_rows("groups", row["groups"], _convert_group)
    if isinstance(row.get("updates"), dict):
        new["updates"] = _without_fixed(row["updates"])
    return new


def _without_fixed(row: Row) -> Row:
    for key in FIXED_VALUES.keys() & row.keys():
        if row[key] != FIXED_VALUES[key]:
            raise ValueError(messages.fixed_value(key, FIXED_VALUES[key], row[key]))
    return {key: value for key, value in row.items() if key not in FIXED_VALUES}


def _convert_field(field: Any) -> Any:  # noqa: ANN401 - a map, or a pointer alone
    if not isinstance(field, dict):
        return field
    new = {key: value for key, value in field.items() if key not in FUNCTIONS}
    flags = [flag for flag in FUNCTIONS if field.get(flag)]
    return new | {"function": FUNCTIONS[flags[0]]} if flags else new


def _convert_group(row: Row) -> Row:
    new = _without_fixed(row)
    new_names = {"numbers": "count", "continues": "continues"}
    number_keys = {name: new.pop(key) for key, name in new_names.items() if key in new}
    if "index" in new:
        first, *others = converted_rows("index", new.pop("index"), lambda term: _convert_summand(**term))
        new["number"] = first | ({"plus": others} if others else {}) | number_keys
    return new


def _convert_summand(source: str, **factors: Any) -> Row:  # noqa: ANN401 - not checked
    keys = {LABEL: "label", ENV: "env"}
    new: Row = {key: source.removeprefix(prefix) for prefix, key in keys.items() if source.startswith(prefix)}
    return (new or {"podName": source == NAME}) | factors


def convert_rule(row: Row) -> Row:
    """Returns a rule with the present names of placers and conditions.

    Raises:
        ValueError: The rule has ``named: false``, or has ``named: true`` and does not use ``$(job.name)``.
    """
    with errors_at("match"):
        named = row.get("match", {}).get("named")
    if named is False or (named and "$(job.name)" not in str([row.get(key) for key in KEYS_WITH_NAME])):
        raise ValueError(messages.named(row["name"]))
    new = {key: convert_rule(value) if key == "match" else value for key, value in row.items()}
    if "placer" in row:
        words = [PLACERS[word].value if word in PLACERS else word for word in list_of(row, "placer")]
        new["placer"] = words if isinstance(row["placer"], list) else words[0]
    if new.get("named") is True:  # a rule that uses the job's name does not apply to jobs without a name
        del new["named"]
    if names := list_of(new, "volume"):
        del new["volume"]
        maps = list_of(new, "template") or [{}]
        new_maps = [{**old, f"/spec/volumes[name={name}]/name": "Exists"} for old in maps for name in names]
        new["template"] = new_maps if new_maps[1:] else new_maps[0]
    return new


def list_of(row: Row, key: str) -> list[Any]:
    """Returns the values of a key whose value is a list or stands for a list of one value."""
    value = row.get(key, [])
    return value if isinstance(value, list) else [value]
