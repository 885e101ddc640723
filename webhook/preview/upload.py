"""The texts of a request: its body, or the parts of a form."""

from collections.abc import Mapping
from io import BytesIO
from typing import Final

from flask import Request, abort
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.formparser import FormDataParser

from common.texts import printable
from webhook import limits
from webhook.preview.parameters import SHOWN, ParameterError

FORM: Final = "multipart/form-data"
PARTS: Final = {
    "object": "The documents, YAML or JSON.",
    "old": "The stored objects that they update.",
}
"""Part of a form -> what is in it."""

CURL: Final = "application/x-www-form-urlencoded"
"""What curl says of a body, whatever it is, unless somebody says something else."""


def texts_of(request: Request) -> dict[str, bytes]:
    """The documents by their name in messages: ``request``, the body; or the parts of a form.

    Raises:
        HTTPException: if it is too large, or no such form.
    """
    if (request.content_length or 0) > limits.PREVIEW:
        abort(413, f"a preview takes {limits.PREVIEW} bytes at most")
    if request.mimetype != FORM:
        return {"request": request.get_data(cache=False)}
    # Nothing of it goes to a file: the root of a container cannot be written.
    parser = FormDataParser(
        stream_factory=lambda *_, **__: BytesIO(),
        max_form_memory_size=limits.PREVIEW,
        max_form_parts=len(PARTS) + 1,
        silent=False,
    )
    try:
        _, fields, files = parser.parse(request.stream, FORM, request.content_length, request.mimetype_params)
    except (ValueError, RequestEntityTooLarge) as error:
        message = f"the body is no {FORM} with the parts {' and '.join(PARTS)}: send it as curl -F does"
        raise ParameterError("unreadable-form", message) from error
    given = [(name, text.encode()) for name, text in fields.items(multi=True)]
    given += [(name, file.read()) for name, file in files.items(multi=True)]
    texts = dict(given)
    if "object" not in texts or len(texts) < len(given) or not texts.keys() <= PARTS.keys():
        names = printable(", ".join(name or "a part without a name" for name, _ in given), SHOWN)
        message = f"the form has {names or 'nothing'}; it takes object once and, for an update, old once"
        raise ParameterError("invalid-form", message)
    return texts


def hint(request: Request, texts: Mapping[str, bytes]) -> str:
    """The end of a message about documents that cannot be read, if curl may have taken their lines apart."""
    if request.mimetype == CURL and b"\n" not in texts["request"]:
        return "; curl's -d takes newlines out of a file: send it with --data-binary @FILE"
    return ""
