"""The texts of a request, and the previews of their documents."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from flask import abort, request
from werkzeug.exceptions import RequestEntityTooLarge

from common.texts import printable
from webhook import limits
from webhook.documents import DocumentError, read_documents
from webhook.preview.parameters import SHOWN, ParameterError
from webhook.preview.run import EMPTY, Preview, preview
from webhook.rows.table import Table

FORM: Final = "multipart/form-data"
PARTS: Final = {"object", "old"}
"""Parts of a form: the documents, and the stored objects that they update."""

CURL: Final = "application/x-www-form-urlencoded"
"""What curl says of a body, whatever it is, unless somebody says something else."""


def answer(
    table: Table,
    texts: Mapping[str, str | bytes],
    how: Mapping[str, Any],
    render: Callable[[list[Preview]], str],
) -> tuple[int, str]:
    """Returns HTTP status and text of the previews of documents; the text of a refusal is its reason.

    Args:
        table: the rules.
        texts: of the documents and, as ``old``, of what is stored, by their names in messages.
        how: what else `preview` takes.
        render: makes the text of previews.
    """
    try:
        read = {name: read_documents(text, name, limits.PREVIEW_VALUES) for name, text in texts.items()}
        old = read.pop("old", None)
        (documents,) = read.values()
        items = preview(table, documents, now=time.time(), old=old, most_pods=limits.PREVIEW_PODS, **how)
    except DocumentError as error:
        return 400, str(error)
    return (200, render(items)) if items else (400, EMPTY)


def refuse_longer(most: int) -> None:
    """Ends a request that is longer than so many bytes, before it is read."""
    if (request.content_length or 0) > most:
        abort(413, f"a preview takes {limits.PREVIEW} bytes at most")
    request.max_form_memory_size = most


def texts_of() -> dict[str, bytes]:
    """Returns the texts of the request: ``request``, its body; or the parts of a form.

    Raises:
        HTTPException: if it is too large, or another form.
    """
    refuse_longer(limits.PREVIEW)
    if request.mimetype != FORM:
        return {"request": request.get_data(cache=False)}
    request.max_form_parts = len(PARTS) + 1
    try:
        given = [(name, text.encode()) for name, text in request.form.items(multi=True)]
        given += [(name, file.read()) for name, file in request.files.items(multi=True)]
    except RequestEntityTooLarge:
        raise ParameterError(
            "invalid-form", "the form has too many parts: object once, and old once"
        ) from None
    texts = dict(given)
    if "object" not in texts or len(texts) < len(given) or not texts.keys() <= PARTS:
        names = printable(", ".join(name or "a part without a name" for name, _ in given), SHOWN)
        message = f"the form has {names or 'nothing'}; it takes object once and, for an update, old once"
        raise ParameterError("invalid-form", f"{message}: send it as curl -F does")
    return texts


def hint(texts: Mapping[str, bytes]) -> str:
    """The end of a message about documents that cannot be read, if curl may have taken their lines apart."""
    if request.mimetype == CURL and b"\n" not in texts["request"]:
        return "; curl's -d takes newlines out of a file: send it with --data-binary @FILE"
    return ""
