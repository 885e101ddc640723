"""Tests of the chart, as Helm renders it and as Helm installs it."""
