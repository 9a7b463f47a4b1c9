"""Background services of the daemon, besides answering requests, and what the commands do with whole databases."""
