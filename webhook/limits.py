"""Most of what is read, in bytes, each in one place."""

from typing import Final

BODY: Final = 3 * 1024 * 1024
"""A request body: a review holds an object and its predecessor, and etcd takes objects of 1.5 MiB."""

SHORT_REVIEW: Final = 64 * 1024
"""A review that is evaluated where it arrives, in a few milliseconds."""

PREVIEW: Final = 1024 * 1024
"""The body of a preview, which keeps all of its objects and their texts at a time."""

PREVIEW_VALUES: Final = 7_500
"""Maps, lists, keys and words in a text of a preview: about 120 jobs, which take 2 s with their Pods."""

PREVIEW_PODS: Final = 5_000
"""Pods in a preview over HTTP, which take half a second."""

TEXT: Final = 1536 * 1024
"""One text in a file, in characters; etcd takes no object of more bytes."""

PODS: Final = 10_000
"""Pods of one job that a preview looks at, in a second or two."""

PODS_OF_ALL: Final = 50_000
"""Pods of all jobs of a preview on the command line, in about 15 seconds."""
