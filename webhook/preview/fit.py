"""Whether a job would start now: the placement program makes a decision with the Pods of a preview."""

import http.client
import json
import socket
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from flask import Response, abort, request

from common.output import clean
from common.times import about, clock, time_of
from webhook.objects.tree import get
from webhook.preview.inputs import ParameterError, accepted, answer, read_query, texts_of
from webhook.preview.report import Preview
from webhook.rules.source import TableSource

Ask = Callable[[bytes], dict[str, Any]]
"""Returns the placement program's answer to a question."""
NAMES: Final = ("namespace", "default-namespace")
"""Parameters of a query, as for previews."""
TYPES: Final = ("application/json", "text/plain")
SECONDS: Final = 5.0
_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth")


class NoAnswerError(Exception):
    """The placement program did not answer; the message has the reason."""


def ask(address: str, question: bytes) -> dict[str, Any]:
    """Returns the answer of the replica that decides.

    Args:
        address: The URL of the program, whose name may have an address for each replica.
        question: The job, as `question_of` describes it.

    Raises:
        NoAnswerError: No replica answers.
        ValueError: The placement program cannot answer questions about such a job.
    """
    parts, reasons = urlsplit(address), []
    try:
        addresses = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise NoAnswerError(f"{parts.hostname} is not known: {error}") from error
    for host in dict.fromkeys(str(entry[4][0]) for entry in addresses):
        connection = http.client.HTTPConnection(host, parts.port, timeout=SECONDS)
        try:
            connection.request("POST", "/v1/fit", question)
            response = connection.getresponse()
            body = json.loads(response.read())
        except (OSError, ValueError, http.client.HTTPException) as error:
            reasons.append(f"{host} does not answer: {error}")
            continue
        finally:
            connection.close()
        if response.status == HTTPStatus.OK:
            return dict(body)
        if response.status == HTTPStatus.BAD_REQUEST:
            raise ValueError(body["error"])
        reasons.append(body["error"])
    raise NoAnswerError("; ".join(dict.fromkeys(reasons)))


def question_of(previews: Sequence[Preview]) -> str:
    """Returns the question about a job, as JSON: its sentence and, if it is placed, its Pods."""
    job, *others = previews
    if others:
        return json.dumps({"error": f"the text has {len(previews)} objects: send one job"})
    name = job.item["object"]["name"] or job.item["object"]["generateName"]
    pods = [
        {"count": pod.seen.share.last - pod.seen.share.first + 1, "pod": pod.seen.outcome.after}
        for pod in job.pods
        if pod.seen.share
    ]
    sets = get(job.seen.outcome.after, ("spec", "replicas"))
    return json.dumps(
        {
            "namespace": job.seen.namespace,
            "name": name,
            "sets": sets if isinstance(sets, int) else 1,
            "pods": pods if job.item["verdict"] == "placed" else [],
            "title": job.seen.title,
            "sentence": job.item["sentence"],
        }
    )


def fit(source: TableSource, asks: Ask | None) -> Response:
    """Returns whether a job would start now, with its units, or its position and when it may start.

    ``asks`` is None if the installation does not answer such questions.
    """
    how = read_query(request.args, NAMES)
    kind = accepted(TYPES)
    if asks is None:
        abort(404, "this installation does not answer what fits: install the chart with the value fit: true")
    texts = texts_of()
    if "old" in texts:
        raise ParameterError(
            "invalid-form", "the form has old; a job that would be created has no stored object"
        )
    status, text = source.work(
        sum(map(len, texts.values())), answer, texts, {"pods": True, **how}, question_of
    )
    question = json.loads(text) if status == HTTPStatus.OK else {"error": text}
    if "error" in question:
        abort(400, question["error"])
    described = {
        "apiVersion": "ultraserver-webhook.io/v1alpha1",
        "kind": "Fit",
        "preview": question["sentence"],
    }
    if question["pods"]:
        try:
            described |= asks(text.encode())
        except NoAnswerError as error:
            abort(503, f"the placement program has no answer now: {error}")
        except ValueError as error:
            abort(400, str(error))
        described["text"] = sentence(described)
    else:
        described |= {"fits": False, "text": f"would not start: {question['sentence']}"}
    if kind == TYPES[0]:
        return Response(json.dumps(described, indent=2) + "\n", content_type=f"{kind}; charset=utf-8")
    lines = "".join(f"{line}\n" for line in lines_of(question["title"], described))
    return Response(clean(lines), content_type=f"{kind}; charset=utf-8")


def sentence(answered: dict[str, Any]) -> str:
    """Returns whether a job would start now; otherwise its position in the queue, and when it may start."""
    if answered["fits"]:
        return f"fits now on {', '.join(answered['units'])}"
    if answered["position"] is None:
        return f"cannot start: {answered['why']}"
    number = answered["position"]
    place = _ORDINALS[number - 1] if number <= len(_ORDINALS) else f"number {number}"
    start, now = time_of(answered["start"]), time_of(answered["now"])
    if not (start and now):
        return f"would be {place} in the queue; when it may start is not known"
    guess = "" if answered["exact"] else " (an estimate)"
    when = f"in {about(start - now)}, at {clock(start, now)} UTC{guess}"
    return f"would be {place} in the queue, and may start {when}"


def lines_of(title: str, described: dict[str, Any]) -> list[str]:
    """Returns an answer for people: the sentence, then the details."""
    lines = [f"{title}: {described['text']}", f"  preview  {described['preview']}"]
    if described.get("why") and described["position"]:
        lines.append(f"  waits    {described['why']}")
    if "now" in described:
        others = described["waiting"]
        jobs = f"{others} other job{'s wait' if others > 1 else ' waits'}" if others else "no other job waits"
        lines.append(f"  seen     {described['now']}; {jobs}")
    return lines
