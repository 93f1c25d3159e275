"""The machine itself as a cluster: cards, processes, what they measure."""
