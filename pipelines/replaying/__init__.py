"""Replays of traces: what is replayed, what is believed, what came of it."""
