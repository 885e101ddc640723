"""The texts about placement annotations and numbers of pods that cannot be read."""

from typing import Final

from contract import keys

unreadable: Final = f"annotation {keys.PLACEMENT} cannot be read: {{}}".format
wrong_words: Final = "it is {!r}: write known words KEY=VALUE, each once".format
wrong_placer: Final = "placer is {!r}: it must be one of {}".format
NO_UNIT: Final = "unit is missing: it must be the node label whose value the nodes of a unit share"
wrong_count: Final = "{} is {!r}: it must be a whole number from 1".format
wrong_length: Final = "index has {} summands: it must have 1 to {}".format
_SUMMANDS: Final = "it must be 'name', 'labels/KEY' or 'env/NAME'; '*NUMBER' may follow"
wrong_summand: Final = f"index has the summand {{!r}}: {_SUMMANDS}".format
wrong_group: Final = "group is {!r}: it must be 'labels/KEY'".format
NO_NUMBER: Final = "there is no number at the end of the pod's name"
wrong_number: Final = "{} {} is {!r}: it must be the pod's number, from 0".format
