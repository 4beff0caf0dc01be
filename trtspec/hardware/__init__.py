"""GPUs: what is known of each model, and which are in this machine."""
