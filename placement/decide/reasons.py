"""Why a job cannot have units, in words short enough for an Event."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from placement import messages
from placement.decide.choose import Ranking
from placement.decide.cluster import Cluster
from placement.decide.fit import Cause
from placement.decide.jobs import Job
from placement.decide.plan import Waiting
from placement.messages import Reason

LISTED: Final = 4
"""The number of units that are listed by name; if there are more, they are counted by the kind of cause."""


def explain(cluster: Cluster, waiting: Iterable[Waiting]) -> Iterator[Waiting]:
    """Yields the waiting jobs, each with the reasons why it cannot have units, which many jobs share."""
    # The causes, how many units are free, and which kinds of cause keep how many of these, with the reasons.
    by_key: dict[tuple[object, ...], tuple[str, int, Counter[str], tuple[str, ...]]] = {}
    for each in waiting:
        if each.shortage is None:
            yield each
            continue
        job, ranking, reason = each.job, each.shortage.ranking, each.reason
        reserved, teams = bool(cluster.reserved_from(job)), cluster.guarantees.teams(job.key[0])
        key = ranking, reserved, teams and (teams, len(job.blocks))
        if key not in by_key:
            by_unit = list(causes(cluster, ranking, job))
            total = len(ranking.fitting) + len(ranking.unfit)
            kept = [cause for _, cause in by_unit if cause.kind in ("reserved", "guaranteed")]
            reasons = tuple(dict.fromkeys(cause.detail for cause in kept))
            kinds = Counter(cause.kind for cause in kept)
            by_key[key] = listed(by_unit), total - len(by_unit) + len(kept), kinds, reasons
        text, free, kinds, reasons = by_key[key]
        if reason is Reason.UNITS and kinds and free >= len(job.blocks):
            reason = Reason.GUARANTEE if kinds["guaranteed"] else Reason.RESERVED
        withheld = kinds.total()
        yield replace(each, reason=reason, free=free, withheld=withheld, reasons=reasons, unit_causes=text)


def listed(every: Sequence[tuple[str, Cause]]) -> str:
    """Returns why units cannot be used: a few units by name, many by their number."""
    if len(every) <= LISTED:
        return "; ".join(f"{name}: {cause.detail}" for name, cause in every)
    kinds: defaultdict[str, list[tuple[str, Cause]]] = defaultdict(list)
    for name, cause in every:
        kinds[cause.kind].append((name, cause))
    return "; ".join(_counted(kind, alike) for kind, alike in kinds.items())


def causes(cluster: Cluster, ranking: Ranking, job: Job) -> Iterator[tuple[str, Cause]]:
    """Yields why a job cannot have units, by id: first broken ones, last those that it does not select."""
    yield from ranking.broken.items()
    for unit, taken in ranking.states:
        cause = (
            taken
            or cluster.repelled(unit.nodes, job)
            or cluster.guarantees.cause(unit, job)
            or cluster.reserved(unit, job)
        )
        if cause and cause.kind == "full" and (pod := cluster.filler(unit.nodes, ranking.demands)):
            cause = Cause(cause.kind, messages.filled_by(cause.detail, f"{pod.namespace}/{pod.name}"))
        if cause is not None:
            yield unit.id, cause
    yield from ((unit, cause) for unit, cause in ranking.unfit.items() if unit not in ranking.broken)


def _counted(kind: str, alike: list[tuple[str, Cause]]) -> str:
    whole = kind in ("held", "guaranteed", "reserved", "repelled")
    most = Counter(cause.detail if whole else f"{name}: {cause.detail}" for name, cause in alike).most_common(
        2
    )
    examples = ", ".join(f"{text} ({count})" if count > 1 else text for text, count in most)
    more = len(alike) - sum(count for _, count in most)
    return f"{len(alike)} {kind}: {examples}" + (f" and {more} more" if more else "")
