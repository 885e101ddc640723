"""Most of what is read, in bytes where nothing else is said, each in one place."""

from typing import Final

BODY: Final = 3 * 1024 * 1024
"""A request body: a review holds an object and its predecessor, and etcd takes objects of 1.5 MiB."""

SHORT_REVIEW: Final = 64 * 1024
"""A review that is evaluated where it arrives, in a few milliseconds."""

PREVIEW: Final = 1024 * 1024
"""The body of a preview, which keeps all of its objects and their texts at a time."""

TABLE: Final = 1024 * 1024
"""A rule table's texts; a ConfigMap holds no more (Kubernetes, "ConfigMaps": 1 MiB)."""

TABLE_FILES: Final = 64
"""Files of a rule table: each costs as much work as all rows before it."""
