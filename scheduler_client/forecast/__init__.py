"""Predictions for a cycle: asked in time, believed if plausible, replaced if missing."""
