"""Benchmarks: shapes, random and sampled queries, metrics, runs, reports."""
