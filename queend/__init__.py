"""queend: a message queue daemon on PostgreSQL."""

__version__ = "0.1.0"
