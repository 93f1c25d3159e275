"""Peak GPU memory from a model's structure: fit, measure, report."""
