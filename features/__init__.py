"""Every model input column, built once, for training and serving alike."""
