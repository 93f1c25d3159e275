"""Predictions over HTTP: the pure inference core and the BentoML service around it."""
