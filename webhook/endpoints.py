"""Names of the endpoints that the API server calls, as metrics and logs have them; the path is ``/NAME``."""

from typing import Final

MUTATE: Final = "mutate"
LAUNCHER: Final = "launcher"
"""As `MUTATE`, for Pods that could only fail without it. A release that knows nothing of them lacks this path
too: during an upgrade they are created when a replica is reached that does."""
VERIFY: Final = "verify"
REQUIRE: Final = "require"
RULE_TABLE: Final = "rules"
"""0.1.0 lacks this path, too: its pods would refuse the table of an upgrade, and new ones the old table."""
