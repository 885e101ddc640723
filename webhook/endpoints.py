"""The paths that the server answers, without their slash."""

from typing import Final

MUTATE: Final = "mutate"
VERIFY: Final = "verify"
REQUIRE: Final = "require"
RULE_TABLE: Final = "rule-table"
PREVIEW: Final = "preview"
METRICS: Final = "metrics"
LIVEZ: Final = "livez"
READYZ: Final = "readyz"
