"""Versions in MLflow: runs, models, aliases and what a person reads of them."""
