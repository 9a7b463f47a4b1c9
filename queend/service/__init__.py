"""What the daemon does besides answering requests."""
