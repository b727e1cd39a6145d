"""Keras models and how a config names them. No strategy code."""
