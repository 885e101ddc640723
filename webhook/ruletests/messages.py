"""The texts about invalid cases, and about cases that fail."""

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
is_outside: Final = "{} is outside of {}: copy it into this folder".format
no_file: Final = "there is no file {} in {}{}".format
not_one_object: Final = "{} is not a file with one object".format

# ---- Results -----------------------------------------------------------------------------------------------

other_outcome: Final = "expected {}, got {}: {}".format
KNOWN_KIND: Final = "a kind of the table"
other_enforced: Final = "expected {} without shadow mode, got {}: {}".format
FOR_OTHER_OBJECTS: Final = "it is for other objects"
no_rule: Final = "the table has no rule {!r}{}".format
no_packaged_rule: Final = "the packaged table, which is tested without -f, has no rule {!r}{}".format
no_message: Final = "expected {!r}, but the messages are: {}".format
NO_SNAPSHOT: Final = "the case has no snapshot yet: write it with --update, and check it"


def summary(cases: int, failed: int) -> str:
    return f"{cases} case{'s' * (cases > 1)}, {failed} failed"
