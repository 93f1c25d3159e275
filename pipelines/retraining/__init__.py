"""Continuous learning: finished jobs in, judged challengers out."""
