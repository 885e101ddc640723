"""Defines the labels and annotations by which the webhook, the placement program and the plugin cooperate.

Every package may import `contract`, which imports no other package.
"""
