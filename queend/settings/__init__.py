"""The settings of the daemon: what they are, where their values come from, and which values are valid."""
