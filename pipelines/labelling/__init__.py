"""Labels: slowdowns from profiling runs, and the audit that decides which may teach."""
