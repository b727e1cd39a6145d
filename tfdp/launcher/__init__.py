"""Starts workers on this machine, watches them and ends them together. No TensorFlow here."""
