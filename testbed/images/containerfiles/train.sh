#!/bin/sh
# What the README's job runs: one rank.
exec python3 /opt/train.py
