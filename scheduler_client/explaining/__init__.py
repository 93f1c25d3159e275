"""Answers to those who ask: why a job waits, why it is where it is, what would happen."""
