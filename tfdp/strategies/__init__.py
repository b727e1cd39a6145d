"""Strategies that make N replicas train what one device would train on the whole batch."""
