"""Background services of the daemon, besides answering requests."""
