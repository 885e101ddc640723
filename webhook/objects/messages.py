"""The messages about values that cannot be merged, and about paths that a rule table cannot use."""

from typing import Final

wrong_type: Final = "{} must be {}, not {}".format
wrong_order: Final = "move {!r} before {} in {}".format
cannot_amend: Final = "{} has no {!r} to amend".format
name_taken: Final = "{} cannot have {!r}, a name that is taken in {}".format
_COMBINE: Final = "combine them, for example into one expression with operator In, or opt out"
many_terms: Final = f"{{}} terms are more than {{}}, so no requirement can be added: {_COMBINE}: {{}}".format
_POSITION: Final = "{} is the position of a list element, and a path cannot select by position"
by_position: Final = f"{{}} selects nothing: {_POSITION}; select by a key, as in {{}}[name=workers]".format
_SELECTION: Final = "LIST[KEY=VALUE], as in jobs[name=workers], with ~1 for each / in VALUE, or LIST[*]"
no_selection: Final = f"{{!r}} selects no list element; write {_SELECTION} for all elements".format
