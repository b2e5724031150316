"""Compiled inner loops, one module per engine; each is compiled once and cached on disk."""
