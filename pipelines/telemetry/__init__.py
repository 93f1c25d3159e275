"""From a cluster's telemetry to the tables that models are trained from."""
