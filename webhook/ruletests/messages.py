"""The texts about invalid cases, except texts that `cases.py` composes from its own values."""

from typing import Final

NO_CASES: Final = "the folder has no YAML file with a list of cases"
SEVERAL_DOCUMENTS: Final = "a file of cases must be one YAML document, which is a list"
UNUSED_FILE: Final = "is not a list of cases, and no case uses it: remove it"
UNKNOWN_KEY: Final = "unknown key: remove it"
NO_OBJECT: Final = "must be an object, or the path of its file"
NOTHING_EXPECTED: Final = "is empty: add the expected outcome"
IS_HIDDEN: Final = "is hidden, and cases in hidden files are not read: rename it"
is_link: Final = "is a link to {}: remove it, so that a file can be written".format
same_name: Final = "{!r} is also the name of {}: rename one case".format
other_operation: Final = "must be {}, because only an UPDATE has an oldObject".format
other_namespace: Final = "must be {!r}, the namespace of the object".format
