"""A job's profile from its model's structure, before it ever ran: fit, measure, report."""
