"""Families of /metrics/prometheus, and the history from which pages draw."""
