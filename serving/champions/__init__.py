"""Which versions serve: fetched, verified, kept, swapped."""
