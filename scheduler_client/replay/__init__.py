"""Discrete-event replay of a job trace: the jobs, the cards, time, and the event log."""
