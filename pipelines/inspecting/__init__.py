"""What a PyTorch model is made of, read from its code on the meta device; nothing is allocated."""
