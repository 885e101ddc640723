"""Explains why a job cannot have units, in a text that is short enough for an Event."""

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

MOST_LISTED: Final = 4
"""Up to this number, units are listed by name. More units are counted by the category of the cause."""


def explain(cluster: Cluster, waiting_jobs: Iterable[Waiting]) -> Iterator[Waiting]:
    """Yields the waiting jobs, each with the reasons for which it cannot have units."""
    # Many jobs share an explanation: the causes as a text, the number of free units, the number of free units
    # that each category of cause withholds, and the details of these causes.
    explanations: dict[tuple[object, ...], tuple[str, int, Counter[str], tuple[str, ...]]] = {}
    for waiting_job in waiting_jobs:
        if waiting_job.shortage is None:
            yield waiting_job
            continue
        job, ranking, reason = waiting_job.job, waiting_job.shortage.ranking, waiting_job.reason
        teams = cluster.guarantees.guarantees_of(job.key[0])
        key = ranking, cluster.reservations.excluding(job), teams and (teams, len(job.blocks))
        if key not in explanations:
            by_unit = list(causes(cluster, ranking, job))
            total = len(ranking.units) + len(ranking.causes)
            withheld = [cause for _, cause in by_unit if cause.category in ("reserved", "guaranteed")]
            reasons = tuple(dict.fromkeys(cause.detail for cause in withheld))
            categories = Counter(cause.category for cause in withheld)
            free = total - len(by_unit) + len(withheld)
            explanations[key] = causes_text(by_unit), free, categories, reasons
        text, free, categories, reasons = explanations[key]
        if reason is Reason.UNITS and categories and free >= len(job.blocks):
            reason = Reason.GUARANTEE if categories["guaranteed"] else Reason.RESERVED
        with_counts = replace(waiting_job, free_count=free, withheld_count=categories.total())
        yield replace(with_counts, reason=reason, reasons=reasons, unit_causes=text)


def causes_text(unit_causes: Sequence[tuple[str, Cause]]) -> str:
    """Returns why units cannot be used: a few units are listed by name, many units are counted."""
    if len(unit_causes) <= MOST_LISTED:
        return "; ".join(f"{name}: {cause.detail}" for name, cause in unit_causes)
    by_category: defaultdict[str, list[tuple[str, Cause]]] = defaultdict(list)
    for name, cause in unit_causes:
        by_category[cause.category].append((name, cause))
    return "; ".join(_category_text(category, entries) for category, entries in by_category.items())


def causes(cluster: Cluster, ranking: Ranking, job: Job) -> Iterator[tuple[str, Cause]]:
    """Yields the units that a job cannot have, each with the cause.

    The order is: unusable units; units with other causes; units with holders, of which a busy cluster has
    many; units that the job does not select.
    """
    yield from ranking.unusable_units.items()
    held: list[tuple[str, Cause]] = []
    reservations = cluster.reservations.excluding(job)
    allowances = cluster.allowances(job, reservations)
    for unit, cause_of_unit in ranking.unit_states.values():
        cause = (
            cause_of_unit
            or cluster.why_repelled(unit.nodes, job)
            or cluster.why_reserved(unit, reservations)
            or cluster.guarantees.why_kept(unit, job, allowances)
        )
        is_full = cause and cause.category == "full"
        if cause and is_full and (pod := cluster.largest_filler(unit.nodes, ranking.demands)):
            cause = Cause(cause.category, messages.filled_by(cause.detail, f"{pod.namespace}/{pod.name}"))
        if cause and cause.category == "held":
            held.append((unit.id, cause))
        elif cause:
            yield unit.id, cause
    yield from held
    yield from ((unit, cause) for unit, cause in ranking.causes.items() if unit not in ranking.unusable_units)


def _category_text(category: str, unit_causes: list[tuple[str, Cause]]) -> str:
    has_equal_details = category in ("held", "guaranteed", "reserved", "repelled")
    frequent = Counter(
        cause.detail if has_equal_details else f"{name}: {cause.detail}" for name, cause in unit_causes
    ).most_common(2)
    examples = ", ".join(f"{text} ({count})" if count > 1 else text for text, count in frequent)
    other_count = len(unit_causes) - sum(count for _, count in frequent)
    return f"{len(unit_causes)} {category}: {examples}" + (f" and {other_count} more" if other_count else "")
