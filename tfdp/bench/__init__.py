"""Benchmarks. Nothing here is imported by training."""
