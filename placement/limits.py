"""The limits of what is read from one pod, and from the objects for its device claims: users write them.

Conditions are compared with every node, and stored: 10,000 Pods with 200 parts take 150 MB.
"""

from typing import Final

MOST_CONDITIONS: Final = 200  # parts of conditions: a value counts as one, everything else as four
MOST_TEXT: Final = 4096  # characters of all conditions, of its labels, and of its anti-affinity
MOST_APART: Final = 16  # terms of anti-affinity; the guard never accepts more
MOST_APART_TEXT: Final = 1024  # characters of these, for a pod without a placement annotation
# Labels of a pod without a placement annotation; if it has more, only the `MARKS` are stored.
MOST_LABELS: Final = 32
# Bytes while it waits: the API server permits 262,144, and a plan needs 18,300.
MOST_ANNOTATIONS: Final = 240_000
MOST_RESOURCES: Final = 32  # names of resources that it requests
MOST_PORTS: Final = 16  # host ports
MOST_CLAIMS: Final = 8  # entries of its `resourceClaims`
MOST_GATES: Final = 16
MOST_COMPARED: Final = 32  # requests of one claim, and comparisons in their selectors, together
