"""Authorization: bearer tokens, their keys, and the level of every route (docs/auth.md)."""
