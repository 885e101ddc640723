"""Previews as text for people: the sentence and a diff, or each rule with the fields that it set."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from common.pointers import parse_pointer
from common.texts import WIDTH, counted, folded, printable
from contract import keys
from webhook.engine.outcome import State
from webhook.objects.tree import shown, text_of, walk
from webhook.preview.lines import unified
from webhook.preview.report import Preview
from webhook.preview.sentence import Judgement

AFTER: Final = "after ultraserver-webhook"
WIDEST: Final = 100
"""Maximum length of a value."""


def as_text(previews: Iterable[Preview]) -> str:
    """Returns the messages on every document, and a diff; then the number of each verdict."""
    items = list(previews)
    texts = (f"{headline(item)}{details(item)}{as_diff(item)}" for item in items)
    return "".join([*texts, f"{totals(items)}\n" if len(items) > 1 else ""])


def as_why(previews: Iterable[Preview]) -> str:
    """Returns the verdict on every document, and each rule with its fields or failed condition."""
    items = list(previews)
    texts = ["".join(_explained(item)) for item in items]
    return "\n".join([*texts, *([f"{totals(items)}\n"] if len(items) > 1 else [])])


def headline(item: Preview) -> str:
    """Returns the title of a document and, indented below, its sentence."""
    return f"{printable(item.source)}: {printable(item.seen.title)}\n{folded(item.item['sentence'], '  ')}\n"


def totals(items: Iterable[Preview]) -> str:
    """Returns the number of objects with each verdict, as one line without a line end."""
    numbers = Counter(item.item["verdict"] for item in items)
    return ", ".join(f"{numbers[word]} {word}" for word in Judgement)


def row(name: str, text: str) -> str:
    """Returns a message after its name, in lines of at most `WIDTH`."""
    return f"{folded(printable(text), f'  {name:8} ')}\n"


def details(item: Preview) -> str:
    """Returns what the sentence leaves out, a row each: policy, shadow, messages and Pods."""
    rows = [(name, text) for name, text in _messages(item) if name != "refused"]
    for pod, like in shown_pods(item.pods):
        fired = ", ".join(rule["name"] for rule in pod.item["rules"] if rule["state"] is State.FIRED)
        rows.append(("Pod", like or f"{pod.seen.share}: {pod.item['outcome']}{fired and f' by {fired}'}"))
        rows += [] if like else pod.texts
    return "".join(row(name, text) for name, text in rows)


def as_diff(item: Preview) -> str:
    """Returns a unified diff of an object's YAML, one of what is in shadow, and those of its Pods."""
    title, outcome = printable(f"{item.source} ({item.seen.title})"), item.seen.outcome
    diffs = [unified(item.seen.object, outcome.after, title, AFTER)]
    if outcome.enforced:
        enforced = outcome.enforced.after
        diffs += [unified(outcome.after, enforced, f"{title} {AFTER}", "if what is in shadow were enforced")]
    return "".join([*map(_cut, diffs), *(as_diff(pod) for pod, like in shown_pods(item.pods) if not like)])


def _cut(diff: str) -> str:
    """Returns a diff with lines of at most `WIDTH` below its head; an ellipsis ends those that are cut."""
    lines = diff.splitlines()
    cut = [line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…" for line in lines[2:]]
    return "".join(f"{line}\n" for line in (*lines[:2], *cut))


def _messages(of: Preview) -> Iterator[tuple[str, str]]:
    """Yields the messages for people, except the reason, each after its name."""
    yield from (("policy", text) for text in [of.item["policy"]] if text)
    yield from (
        ("shadow", f"would be refused: {text}") for text in (of.item["shadow"] or {}).get("denials", ())
    )
    yield from of.texts


def _explained(of: Preview) -> Iterator[str]:
    item = of.item
    yield headline(of)
    yield row("reason", item["reason"])
    if job := item["job"]:
        size = f"{counted(job['workers'], 'worker')}, {counted(job['nodes'], 'node')}"
        yield row("shape", f"{job['shape']} ({size}, node config {job['nodeConfig']})")
        yield from (row(stage, job[stage]) for stage in ("devices", "placer"))
        yield row("rest", "the rules below, in this order")
    yield from (row(name, text) for name, text in _messages(of))
    fields: dict[str, list[str]] = {}
    for change in item["changes"]:
        fields.setdefault(change["rule"]["name"] if change["rule"] else "", []).append(_field(change))
    rules = (rule for rule in item["rules"] if of.all_rules or rule["state"] is not State.SKIPPED)
    for rule in sorted(rules, key=lambda rule: rule["state"] is not State.FIRED):
        where = " ({file}:{line})".format(**rule["source"]) if rule["source"] else ""
        yield row(rule["state"], f"{rule['name']}{where}: {rule['why']}")
        yield from fields.get(rule["name"], ())
    if "" in fields:
        yield row("no rule", "the webhook's record, a launcher's init script, and what it takes or puts back")
        yield from fields[""]
    for pod, like in shown_pods(of.pods):
        yield from [f"{printable(of.source)}: Pod {printable(like)}\n"] if like else _explained(pod)


def _field(change: Mapping[str, Any]) -> str:
    before, after = (
        "nothing" if value is None else shown(value, WIDEST) for value in (change["before"], change["after"])
    )
    return row("", f"{change['path']}: {after}, was {before}")


def shown_pods(pods: Iterable[Preview]) -> Iterator[tuple[Preview, str]]:
    """Yields each Pod to show with an empty text, and again with a line on similar ones that follow."""
    runs: list[list[tuple[Preview, Mapping[Any, str]]]] = []
    for pod in pods:
        texts = _texts(pod)
        changed = _differences(runs[-1][0][1], texts) if runs else None
        if changed is None:
            runs.append([(pod, texts)])
        else:
            runs[-1].append((pod, changed))
    for (first, _), *similar in runs:
        yield first, ""
        if similar:
            yield first, _line_about(first, similar)


def _line_about(first: Preview, similar: list[tuple[Preview, Mapping[str, str]]]) -> str:
    (begin, changed), (end, last) = similar[0], similar[-1]
    parts = f"{len(similar)} parts " if len(similar) > 1 else ""
    values = (f"{key} {text}" + (f" to {last.get(key)}" if parts else "") for key, text in changed.items())
    share = begin.seen.share and end.seen.share and begin.seen.share._replace(last=end.seen.share.last)
    return f"{share}: {parts}like {first.seen.share}, with {', '.join(values) or 'no difference'}"


def _differences(first: Mapping[Any, str], other: Mapping[Any, str]) -> Mapping[str, str] | None:
    """Returns the texts in which the second Pod differs, by key; None if they differ in more than texts."""
    if first.keys() != other.keys():
        return None
    differences: dict[tuple[str, str], str] = {}
    for position, text in other.items():
        if first[position] != text:  # the first of several positions, a label, stands for all
            key = next(part for part in reversed(position) if isinstance(part, str))
            differences.setdefault((first[position], text), key)
    return {key: text for (_, text), key in differences.items()}


def _texts(pod: Preview) -> Mapping[Any, str]:
    """Returns the new texts by position, and the messages, without the record, which consists of digests."""
    messages = [pod.item[key] for key in ("rules", "warnings", "denials")]
    texts: dict[Any, str] = {(pod.seen.share and pod.seen.share.group, str(messages)): ""}
    for change in pod.item["changes"]:
        rule = change["rule"] and change["rule"]["name"]
        for path, value in walk(change["after"], parse_pointer(change["path"])):
            if keys.ADDED_TO_POD not in path:
                texts[rule, *path] = "" if isinstance(value, dict | list) else text_of(value)
    return texts
