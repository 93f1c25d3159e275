"""Jobs from submission to the job log, durable at every step."""
