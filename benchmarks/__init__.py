"""Measurements behind the tables in docs/results.md; one module a `make bench-NAME`."""
