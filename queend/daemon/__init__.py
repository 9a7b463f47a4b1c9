"""The life of the daemon: its start and stop, reloads, and what it agrees with systemd and the system."""
