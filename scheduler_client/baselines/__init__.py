"""Published scheduling policies, each on a page with its paper, for the replay."""
