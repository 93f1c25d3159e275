"""The light scheduler: pure policies over a cluster view, and the loop that applies them."""
