"""Serves ``/v1/fit``: sends the Pods in a job's preview to the placement program, and returns its answer."""

import http.client
import json
import socket
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from flask import Response, abort, request

from common.output import clean
from webhook.objects.tree import get
from webhook.preview import messages
from webhook.preview.inputs import ParameterError, accepted_type, answer, read_query, request_texts
from webhook.preview.report import Preview
from webhook.rules.source import TableSource

Ask = Callable[[bytes], dict[str, Any]]
"""A function that returns the placement program's answer to a question."""
TYPES: Final = ("application/json", "text/plain")
TIMEOUT_SECONDS: Final = 5.0


class NoAnswerError(Exception):
    """The placement program cannot answer now; the message has the reason."""


def ask_placement(url: str, question: bytes) -> dict[str, Any]:
    """Returns the answer of the placement program's leader; asks one replica after the other.

    Args:
        url: The URL of the program; its host name may have an IP address for each replica.
        question: The job, as `question_of` describes it.

    Raises:
        NoAnswerError: The host has no address, or no replica can answer.
        ValueError: The placement program refuses the question.
    """
    parts, reasons = urlsplit(url), []
    try:
        addresses = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise NoAnswerError(messages.no_address(parts.hostname, error)) from error
    for host in dict.fromkeys(str(entry[4][0]) for entry in addresses):
        connection = http.client.HTTPConnection(host, parts.port, timeout=TIMEOUT_SECONDS)
        try:
            connection.request("POST", "/v1/fit", question)
            response = connection.getresponse()
            body = json.loads(response.read())
        except (OSError, ValueError, http.client.HTTPException) as error:
            reasons.append(messages.does_not_answer(host, error))
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
    """Returns the question about a job as JSON; for several objects, JSON with the key ``error``.

    The question has Pods only if the job is placed.
    """
    job, *other_previews = previews
    if other_previews:
        return json.dumps({"error": messages.several_objects(len(previews))})
    name = job.report["object"]["name"] or job.report["object"]["generateName"]
    pods = [
        {"count": pod.run.share.last - pod.run.share.first + 1, "pod": pod.run.outcome.after}
        for pod in job.pods
        if pod.run.share
    ]
    replicas = get(job.run.outcome.after, ("spec", "replicas"))
    question = {
        "namespace": job.run.namespace,
        "name": name,
        "sets": replicas if isinstance(replicas, int) else 1,
        "pods": pods if job.report["verdict"] == "placed" else [],
        "title": job.run.title,
        "sentence": job.report["sentence"],
    }
    return json.dumps(question)


def fit(source: TableSource, ask: Ask | None) -> Response:
    """Returns whether a job would start now. For a placed job that must wait, also returns when it may start.

    ``ask`` is None if the installation has no placement program that answers.
    """
    options = read_query(request.args, "/v1/fit")
    media_type = accepted_type(TYPES)
    if ask is None:
        abort(404, messages.FIT_IS_OFF)
    texts = request_texts()
    if "old" in texts:
        raise ParameterError("invalid-form", messages.NO_OLD)
    size = sum(map(len, texts.values()))
    status, text = source.work(size, answer, texts, {"pods": True, **options}, question_of)
    question = json.loads(text) if status == HTTPStatus.OK else {"error": text}
    if "error" in question:
        abort(400, question["error"])
    body = {"apiVersion": "ultraserver-webhook.io/v1alpha1", "kind": "Fit", "preview": question["sentence"]}
    if question["pods"]:
        try:
            body |= ask(text.encode())
        except NoAnswerError as error:
            abort(503, messages.no_answer_now(error))
        except ValueError as error:
            abort(400, str(error))
        body["text"] = messages.fits_or_waits(body)
    else:
        body |= {"fits": False, "text": messages.would_not_start(question["sentence"])}
    lines = [json.dumps(body, indent=2)] if media_type == TYPES[0] else lines_of(question["title"], body)
    return Response(clean("\n".join([*lines, ""])), content_type=f"{media_type}; charset=utf-8")


def lines_of(title: str, body: dict[str, Any]) -> list[str]:
    """Returns an answer as lines of text: the sentence, then the details."""
    lines = [f"{title}: {body['text']}", f"  preview  {body['preview']}"]
    if body.get("why") and body["position"]:
        lines.append(f"  waits    {body['why']}")
    if "now" in body:
        lines.append(f"  seen     {body['now']}; {messages.others_wait(body['waiting'])}")
    return lines
