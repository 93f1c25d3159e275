"""Slowdown of two jobs on one card: fit, measure, report."""
