"""The warning of a time limit without effect agrees with what placement reads."""

from itertools import product

from common.times import duration
from webhook.objects.templates import matches
from webhook.rules.load import load_default

(ROW,) = (rule for rule in load_default().rules if rule.name == "time-limit-unknown")
LIMITS = ROW.match.given["annotations"].value["ultraserver-webhook.io/time-limit"]

LONG = (
    "1d12h30m5s",
    "10000d",
    "1000000d",
    "99999999999d",
    "99999999999h",
    "1d100000h",
    "1d99999m",
    "10000000m",
    "99999999m1s",
    "9999999999s",
    "1d 2h",
    "1h\n",
    "\uff11h",
)


def test_each_value_without_effect_is_warned_of_and_no_other() -> None:
    short = ("".join(text) for size in range(1, 5) for text in product("0139dhms", repeat=size))
    differing = [text for text in (*short, *LONG) if matches(text, LIMITS) == (duration(text) is not None)]
    assert differing == []
