"""What the tests stand on: a PostgreSQL of their own, the daemon as a process, HTTP over a plain socket."""
