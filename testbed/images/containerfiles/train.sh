#!/bin/sh
# The program of the README's job: runs one rank.
exec python3 /opt/train.py
