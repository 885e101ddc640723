"""Defines the labels and annotations by which the webhook, the placement program and the plugin cooperate.

Every package may import this one, and it imports no other package.
"""
