"""Moving in from a Queen MQ database: `queend import-queen` (docs/migration.md)."""
