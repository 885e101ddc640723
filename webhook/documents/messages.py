"""The texts about files that cannot be read. A text with values is a function: a template's ``format``."""

from typing import Final

PARSER_HINTS: Final = {
    "mapping values are not allowed": "quote the text if it contains ': ', or check the indentation",
    "cannot start any token": "indent with spaces, not tabs, and quote text that starts with @, ` or %",
    "could not find expected ':'": "write 'key: value', with a space after the colon",
    "expected <document start>": "write a line '---' between documents; put each JSON object on its own line",
    "invalid Unicode character": "write the character itself; pairs such as \\ud83d\\ude00 are for JSON only",
    "undefined alias": "write the anchor before the alias, in the same document",
    "duplicate anchor": "use another name for one of the anchors",
    "": "check indentation, quotes and brackets here and above",
}
"""The remedy for each error of libyaml, by a part of the error's text; the last is for all other errors."""
OMITTED_LINES: Final = "'...' stands for omitted lines: write these lines, or remove '...'"
ONLY_COMMENT: Final = "only a comment may follow '---': begin on the next line"
IGNORED_TEXT: Final = "kubectl ignores the text after '...': write '---' between documents"
ONLY_JSON: Final = "kubectl reads only JSON here: correct it, or write a line '---' between all documents"
character_not_allowed: Final = "{!a} is not allowed in YAML: remove it, or escape it in double quotes".format
not_utf8: Final = "the byte {:#x} is not UTF-8: save the file as UTF-8".format
ESCAPED_SLASH: Final = r"kubectl reads the escape \/ in JSON only, and this is YAML: write /"
MERGE_KEY: Final = "kubectl merges '<<' here in its own way: put it first, with one map or alias"
KEY_NOT_TEXT: Final = "a map or a list cannot be a key: quote it if it is text"
LONG_ALIASES: Final = "the aliases expand to a text that is too long: use fewer aliases, or split the file"
too_deep: Final = "nested deeper than {} levels, or an alias within its own anchor: flatten it".format
many_values: Final = "more than {:,} maps, lists, keys and words: split the file".format
long_text: Final = "the text has {} characters, {} is the maximum: shorten it".format
tag_not_supported: Final = "the tag {} is not supported: remove it, and quote the value if it is text".format
repeated_key: Final = "key {!r} is twice in one map: remove one".format
word_as_key: Final = 'kubectl does not read the key {0} as text: write "{0}"'.format
not_an_object: Final = "a Kubernetes object is a map with apiVersion and kind, and this is {}".format
items_not_a_list: Final = "items is {}, not a list: write a list of objects".format
_MISSING_KEY: Final = "this is not a Kubernetes object: it has no {0}"
missing_key: Final = f"{_MISSING_KEY}; add it, or leave the file out".format
misspelt_key: Final = f"{_MISSING_KEY}; did you mean {{0!r}} for {{1!r}}?".format
