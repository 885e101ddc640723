"""Tests of the exact texts about files that cannot be read. Other tests compare only the facts in a text."""

from tests import texts
from webhook.documents import messages

CONSTANTS = {
    "OMITTED_LINES": "'...' stands for omitted lines: write these lines, or remove '...'",
    "ONLY_COMMENT": "only a comment may follow '---': begin on the next line",
    "IGNORED_TEXT": "kubectl ignores the text after '...': write '---' between documents",
    "ONLY_JSON": "kubectl reads only JSON here: correct it, or write a line '---' between all documents",
    "character_not_allowed": "{!a} is not allowed in YAML: remove it, or escape it in double quotes",
    "not_utf8": "the byte {:#x} is not UTF-8: save the file as UTF-8",
    "ESCAPED_SLASH": r"kubectl reads the escape \/ in JSON only, and this is YAML: write /",
    "MERGE_KEY": "kubectl merges '<<' here in its own way: put it first, with one map or alias",
    "KEY_NOT_TEXT": "a map or a list cannot be a key: quote it if it is text",
    "LONG_ALIASES": "the aliases expand to a text that is too long: use fewer aliases, or split the file",
    "too_deep": "nested deeper than {} levels, or an alias within its own anchor: flatten it",
    "many_values": "more than {:,} maps, lists, keys and words: split the file",
    "long_text": "the text has {} characters, {} is the maximum: shorten it",
    "tag_not_supported": "the tag {} is not supported: remove it, and quote the value if it is text",
    "repeated_key": "key {!r} is twice in one map: remove one",
    "word_as_key": 'kubectl does not read the key {0} as text: write "{0}"',
    "not_an_object": "a Kubernetes object is a map with apiVersion and kind, and this is {}",
    "items_not_a_list": "items is {}, not a list: write a list of objects",
    "missing_key": "this is not a Kubernetes object: it has no {0}; add it, or leave the file out",
    "misspelt_key": "this is not a Kubernetes object: it has no {0}; did you mean {0!r} for {1!r}?",
}
"""The texts without parameters, and the templates."""

HINTS = {
    "mapping values are not allowed": "quote the text if it contains ': ', or check the indentation",
    "cannot start any token": "indent with spaces, not tabs, and quote text that starts with @, ` or %",
    "could not find expected ':'": "write 'key: value', with a space after the colon",
    "expected <document start>": "write a line '---' between documents; put each JSON object on its own line",
    "invalid Unicode character": r"write the character itself; pairs such as \ud83d\ude00 are for JSON only",
    "undefined alias": "write the anchor before the alias, in the same document",
    "duplicate anchor": "use another name for one of the anchors",
    "": "check indentation, quotes and brackets here and above",
}


def test_the_texts_without_parameters_and_the_templates() -> None:
    assert (texts.constants(messages), texts.functions(messages)) == (CONSTANTS, set())


def test_the_hints_for_errors_of_the_yaml_parser() -> None:
    assert messages.PARSER_HINTS == HINTS
