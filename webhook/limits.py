"""Defines the limits on texts and objects that the programs read."""

from typing import Final

BODY: Final = 3 * 1024 * 1024
"""Maximum number of bytes of a request body. A review has two versions of an object, each up to 1.5 MiB."""

SHORT_REVIEW: Final = 64 * 1024
"""Maximum number of bytes of a review that the serving process evaluates itself, in a few milliseconds."""

PREVIEW: Final = 1024 * 1024
"""Maximum number of bytes in the body of a preview request. All its objects are in memory together."""

PREVIEW_VALUES: Final = 7_500
"""Maximum number of maps, lists, keys and scalars in a preview: about 120 jobs, which take 2 s with Pods."""

PREVIEW_PODS: Final = 5_000
"""Maximum number of Pods in a preview over HTTP, which take half a second."""

TEXT: Final = 1536 * 1024
"""Maximum number of characters of one text in a file. etcd accepts no object with more bytes."""

PODS: Final = 10_000
"""Maximum number of Pods of one job in a preview, which take one or two seconds."""

PODS_OF_ALL: Final = 50_000
"""Maximum number of Pods of all jobs in a preview on the command line, which take about 15 seconds."""
