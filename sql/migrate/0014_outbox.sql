-- Messages that programs push inside transactions of their own (queen.push): stored with the transaction, moved into the log by the
-- daemon once it has committed (queend.relay). No lane is locked for as long as such a transaction may take.
-- refused: why a message could not be stored; it stays until somebody sets this to NULL or deletes the row.
CREATE TABLE queend.outbox (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    trace_id       uuid,
    queue          text NOT NULL CHECK (octet_length(queue) BETWEEN 1 AND 255),
    partition      text NOT NULL CHECK (octet_length(partition) <= 255),
    transaction_id text NOT NULL CHECK (char_length(transaction_id) BETWEEN 1 AND 255),
    payload        json NOT NULL,
    refused        text
) WITH (vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX outbox_refused ON queend.outbox (id) WHERE refused IS NOT NULL;
-- The public surface: views and functions for people with psql and for programs written in SQL (sql/queen).
CREATE SCHEMA IF NOT EXISTS queen;
