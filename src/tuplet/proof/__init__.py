"""Proofs of answers: `writer` puts them into a file; `checker` is a program of its own that verifies it."""
