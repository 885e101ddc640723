"""Names of the endpoints that the API server calls, as metrics and logs have them; the path is ``/NAME``."""

from typing import Final

MUTATE: Final = "mutate"
LAUNCHER: Final = "launcher"
"""As `MUTATE`, for Pods that could only fail without it."""
VERIFY: Final = "verify"
REQUIRE: Final = "require"
RULE_TABLE: Final = "rules"
