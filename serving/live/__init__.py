"""What finished jobs teach at once, between two trainings."""
