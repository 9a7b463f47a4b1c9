"""Import of a Queen MQ database: `queend import-queen` (docs/migration.md)."""
