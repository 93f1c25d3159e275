"""How long jobs run: fit by finish time, measure, report."""
