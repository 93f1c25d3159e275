"""Offline steps: profile, label, train, evaluate, register, promote, retrain."""
