"""The texts about files and paths that cannot be used."""

from typing import Final

LINK_LEADS_OUT: Final = "a link that leads out of its folder"
NOT_REGULAR: Final = "not a regular file"
not_a_pointer: Final = "a JSON pointer starts with '/': {!r}".format
invalid_table: Final = "a file of the rule table is invalid: {}: {}".format
