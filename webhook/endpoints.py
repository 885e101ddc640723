"""Names of the endpoints that the API server calls, in metrics and logs; the path is ``/NAME``."""

from typing import Final

MUTATE: Final = "mutate"
LAUNCHER: Final = "launcher"
"""As `MUTATE`, for Pods that would fail without it."""
VERIFY: Final = "verify"
REQUIRE: Final = "require"
RULE_TABLE: Final = "rules"
