"""The Pods of a job in a preview: of those that get the same one is shown, the others are named in a line."""

from collections.abc import Iterable, Iterator, Mapping

from common.pointers import parse_pointer
from contract import keys
from webhook.objects.tree import nodes, text_of
from webhook.preview.run import Preview

_Texts = Mapping[tuple[object, ...], str]


def told(pods: Iterable[Preview]) -> Iterator[tuple[Preview, str]]:
    """Each of the Pods that is to be shown, and after it a line on those that follow and get the like."""
    runs: list[list[tuple[Preview, Mapping[str, str]]]] = []
    texts_of_first: _Texts = {}
    for pod in pods:
        texts = _texts(pod)
        but = _but(texts_of_first, texts)
        if but is None:
            texts_of_first = texts
            runs.append([(pod, {})])
        else:
            runs[-1].append((pod, but))
    for (first, _), *alike in runs:
        yield first, ""
        if alike:
            yield first, _line(first, alike)


def _line(first: Preview, alike: list[tuple[Preview, Mapping[str, str]]]) -> str:
    shares, (but, last) = [pod.share for pod, _ in alike if pod.share], (alike[0][1], alike[-1][1])
    parts = f", in {len(alike)} parts" if len(alike) > 1 else ""
    values = (f"{key} {text}" + (f" to {last.get(key)}" if parts else "") for key, text in but.items())
    whole = shares[0]._replace(last=shares[-1].last)
    return f"{whole}{parts}: as {first.share}, with {', '.join(values) or 'the same'}"


def _but(one: _Texts, two: _Texts) -> Mapping[str, str] | None:
    """What else Pods of the same group get, by the key that has it; None where more than texts differs."""
    if one.keys() != two.keys():
        return None
    found: dict[tuple[str, str], str] = {}
    for place, text in two.items():
        if one[place] != text:  # of several places that have it the first, a label, says what it is
            key = next(part for part in reversed(place) if isinstance(part, str))
            found.setdefault((one[place], text), key)
    return {key: text for (_, text), key in found.items()}


def _texts(pod: Preview) -> _Texts:
    """Whatever is done and said, by its place; not the record of it, which is of digests."""
    outcome, group = pod.outcome, pod.share and pod.share.group
    found: dict[tuple[object, ...], str] = {(group, outcome.rules, outcome.warnings, outcome.denials): ""}
    for change in pod.changes:
        for path, value in nodes(change.after, parse_pointer(change.path)):
            if keys.ADDED_TO_POD not in path:
                found[change.rule, *path] = "" if isinstance(value, dict | list) else text_of(value)
    return found
