"""Limits of what the program reads of one pod and of the objects for its device claims, which users write.

The program stores the conditions of each pod and compares them with each node: the conditions of 10,000 Pods
with 200 parts each take 150 MB.
"""

from typing import Final

MOST_CONDITIONS: Final = 200  # parts of conditions: a value is one part, everything else is four parts
MOST_TEXT: Final = 4096  # characters, for each of: all conditions, all labels, the anti-affinity
MOST_APART: Final = 16  # anti-affinity terms; the guard denies pods with more terms
MOST_APART_TEXT: Final = 1024  # characters of these terms if the pod has no placement annotation
# Labels of a pod without a placement annotation. If it has more labels, only the `MARKS` are stored.
MOST_LABELS: Final = 32
# Bytes of the annotations of a gated pod: the API server permits 262,144, and a plan needs 18,300.
MOST_ANNOTATIONS: Final = 240_000
MOST_RESOURCES: Final = 32  # different resources that the pod requests
MOST_PORTS: Final = 16  # host ports
MOST_CLAIMS: Final = 8  # entries of `resourceClaims`
MOST_GATES: Final = 16
MOST_COMPARED: Final = 32  # requests of one claim plus comparisons in the selectors of these requests
