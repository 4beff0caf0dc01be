"""What this machine can run, and why not."""
