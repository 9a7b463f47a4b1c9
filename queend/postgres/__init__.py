"""PostgreSQL as the daemon needs it: connection strings, sessions, migrations, the embedded server."""
