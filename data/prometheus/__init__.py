"""Signals of finished jobs from a cluster's own Prometheus."""
