"""Limits for the fields of a pod and of its device claims, because users can write any number of values.

The program stores the conditions of each pod (node selector, node affinity, tolerations) and compares them
with each node. The conditions of 10,000 Pods with 200 parts each take 150 MB.
"""

from typing import Final

# Parts of a pod's conditions. A label of the node selector, a term, an expression and a toleration have
# four parts each. Each value of an expression is one more part.
MOST_CONDITIONS: Final = 200
MOST_TEXT: Final = 4096  # characters of each of these: a pod's conditions, its labels, its anti-affinity
MOST_APART: Final = 16  # anti-affinity terms; the guard denies pods with more terms
# Limits for a pod without a placement annotation. If its labels exceed a limit, only `MARKS` are stored.
MOST_APART_TEXT: Final = 1024  # characters of its anti-affinity, and characters of its labels
MOST_LABELS: Final = 32
# Bytes of the annotations of a gated worker: the API permits 262,144, and the program adds up to 18,300.
MOST_ANNOTATIONS: Final = 240_000
MOST_RESOURCES: Final = 32  # different resources that the pod requests
MOST_PORTS: Final = 16  # host ports
MOST_CLAIMS: Final = 8  # entries of `resourceClaims`
MOST_GATES: Final = 16
MOST_COMPARED: Final = 32  # requests of one claim plus comparisons in the selectors of these requests
