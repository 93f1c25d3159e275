"""What ``make run`` does, on this machine and on real programs."""
