"""Reviews in, reviews out, over HTTP."""
