"""Readers of public formats, one layout a file."""
