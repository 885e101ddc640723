"""Writes previews as text: the sentence with a diff, or each rule with the fields that it set."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from common.pointers import parse_pointer
from common.texts import WIDTH, count_text, fold, printable
from contract import keys
from webhook.engine.outcome import OutcomeKind, RuleState
from webhook.objects.tree import shown, text_of, walk
from webhook.preview import messages
from webhook.preview.lines import diff_as_yaml
from webhook.preview.report import Preview
from webhook.preview.sentence import JobVerdict

AFTER: Final = "after ultraserver-webhook"
MAX_SHOWN: Final = 100
"""Maximum length of a value in a line about a field."""


def as_text(previews: Iterable[Preview]) -> str:
    """Returns the sentence, the messages and the diff of every document, and the `totals`."""
    items = list(previews)
    texts = (f"{headline(item)}{details(item)}{as_diff(item)}" for item in items)
    return "".join([*texts, f"{totals(items)}\n" if len(items) > 1 else ""])


def as_why(previews: Iterable[Preview]) -> str:
    """Returns the sentence and the rules of every document; the skipped rules only with ``all_rules``."""
    items = list(previews)
    texts = ["".join(_explain(item)) for item in items]
    return "\n".join([*texts, *([f"{totals(items)}\n"] if len(items) > 1 else [])])


def headline(item: Preview) -> str:
    """Returns the title of a document and, on the next line, its sentence."""
    return f"{printable(item.source)}: {printable(item.run.title)}\n{fold(item.report['sentence'], '  ')}\n"


def totals(items: Iterable[Preview]) -> str:
    """Returns the number of objects with each verdict, without a line end."""
    numbers = Counter(item.report["verdict"] for item in items)
    return ", ".join(f"{numbers[verdict]} {verdict}" for verdict in JobVerdict)


def row(name: str, text: str) -> str:
    """Returns a name and a text as lines of at most `WIDTH` characters."""
    return f"{fold(printable(text), f'  {name:8} ')}\n"


def details(item: Preview) -> str:
    """Returns a row for each detail that the sentence does not have: policy, shadow, messages and Pods."""
    rows = [(name, text) for name, text in _messages(item) if name != "refused"]
    for pod, line_about_similar in shown_pods(item.pods):
        rules = ", ".join(rule["name"] for rule in pod.report["rules"] if rule["state"] is RuleState.FIRED)
        result = pod.report["outcome"].replace(OutcomeKind.UNCHANGED, messages.AS_IN_TEMPLATE)
        text = f"{pod.run.share}: {result}{rules and f' by {rules}'}"
        rows.append(("Pod", line_about_similar or text))
        rows += [] if line_about_similar else pod.texts
    return "".join(row(name, text) for name, text in rows)


def as_diff(item: Preview) -> str:
    """Returns the diffs of an object and its Pods, each followed by a diff of what shadow mode prevents."""
    title, outcome = printable(f"{item.source} ({item.run.title})"), item.run.outcome
    diffs = [diff_as_yaml(item.run.object, outcome.after, title, AFTER)]
    if outcome.enforced:
        enforced = outcome.enforced.after
        diffs += [diff_as_yaml(outcome.after, enforced, f"{title} {AFTER}", messages.SHADOW_ENDED)]
    pods = [pod for pod, line_about_similar in shown_pods(item.pods) if not line_about_similar]
    return "".join([*map(_cut, diffs), *map(as_diff, pods)])


def _cut(diff: str) -> str:
    """Returns a diff in which lines have at most `WIDTH` characters; an ellipsis ends a line that is cut."""
    lines = diff.splitlines()
    cut = [line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…" for line in lines[2:]]
    return "".join(f"{line}\n" for line in (*lines[:2], *cut))


def _messages(preview: Preview) -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each message for people, except the reason."""
    item = preview.report
    yield from (("policy", text) for text in [item["policy"]] if text)
    yield from (
        ("shadow", messages.would_be_refused(text)) for text in (item["shadow"] or {}).get("denials", ())
    )
    yield from preview.texts


def _explain(preview: Preview) -> Iterator[str]:
    item = preview.report
    yield headline(preview)
    yield row("reason", item["reason"])
    if job := item["job"]:
        size = f"{count_text(job['workers'], 'worker')}, {count_text(job['nodes'], 'node')}"
        yield row("shape", f"{job['shape']} ({size}, node config {job['nodeConfig']})")
        yield from (row(fact, job[fact]) for fact in ("devices", "placer"))
        yield row("rules", messages.RULE_ORDER)
    yield from (row(name, text) for name, text in _messages(preview))
    fields: dict[str, list[str]] = {}
    for change in item["changes"]:
        fields.setdefault(change["rule"]["name"] if change["rule"] else "", []).append(_field_row(change))
    rules = (rule for rule in item["rules"] if preview.all_rules or rule["state"] is not RuleState.SKIPPED)
    for rule in sorted(rules, key=lambda rule: rule["state"] is not RuleState.FIRED):
        location = " ({file}:{line})".format(**rule["source"]) if rule["source"] else ""
        yield row(rule["state"], f"{rule['name']}{location}: {rule['why']}")
        yield from fields.get(rule["name"], ())
    if "" in fields:
        yield row("no rule", messages.NO_RULE)
        yield from fields[""]
    source = printable(preview.source)
    for pod, line_about_similar in shown_pods(preview.pods):
        line = f"{source}: Pod {printable(line_about_similar)}\n"
        yield from [line] if line_about_similar else _explain(pod)


def _field_row(change: Mapping[str, Any]) -> str:
    values = (change["before"], change["after"])
    before, after = ("nothing" if value is None else shown(value, MAX_SHOWN) for value in values)
    return row("", f"{change['path']}: {after}, was {before}")


def shown_pods(pods: Iterable[Preview]) -> Iterator[tuple[Preview, str]]:
    """Yields the first of similar Pods with an empty text, and again with a line on all others, if any."""
    similar_groups: list[list[tuple[Preview, Mapping[Any, str]]]] = []
    for pod in pods:
        texts = _texts(pod)
        differences = _differences(similar_groups[-1][0][1], texts) if similar_groups else None
        if differences is None:
            similar_groups.append([(pod, texts)])
        else:
            similar_groups[-1].append((pod, differences))
    for (first, _), *similar in similar_groups:
        yield first, ""
        if similar:
            yield first, _line_about(first, similar)


def _line_about(first: Preview, similar: list[tuple[Preview, Mapping[str, str]]]) -> str:
    (begin, texts), (end, last_texts) = similar[0], similar[-1]
    ranges = f"{len(similar)} ranges, each " if len(similar) > 1 else ""
    values = (
        f"{key} {text}" + (f" to {last_texts.get(key)}" if ranges else "") for key, text in texts.items()
    )
    share = begin.run.share and end.run.share and begin.run.share._replace(last=end.run.share.last)
    return messages.similar_pods(share, ranges, first.run.share, ", ".join(values) or "no difference")


def _differences(first: Mapping[Any, str], other: Mapping[Any, str]) -> Mapping[str, str] | None:
    """Returns texts that differ from the first Pod's, by key; None if rules, messages or fields differ."""
    if first.keys() != other.keys():
        return None
    differences: dict[tuple[str, str], str] = {}
    for position, text in other.items():
        if first[position] != text:
            # If several positions differ in the same way, only the key of the first position is listed.
            key = next(part for part in reversed(position) if isinstance(part, str))
            differences.setdefault((first[position], text), key)
    return {key: text for (_, text), key in differences.items()}


def _texts(pod: Preview) -> Mapping[Any, str]:
    """Returns the texts that the webhook sets in a Pod, except in the record, by rule and path.

    One key has the Pod's group, rules and messages.
    """
    rules_and_messages = [pod.report[key] for key in ("rules", "warnings", "denials")]
    texts: dict[Any, str] = {(pod.run.share and pod.run.share.group, str(rules_and_messages)): ""}
    for change in pod.report["changes"]:
        rule = change["rule"] and change["rule"]["name"]
        for path, value in walk(change["after"], parse_pointer(change["path"])):
            if keys.ADDED_TO_POD not in path:
                texts[rule, *path] = "" if isinstance(value, dict | list) else text_of(value)
    return texts
