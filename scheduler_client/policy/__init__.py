"""Decisions as pure functions over an immutable view."""
