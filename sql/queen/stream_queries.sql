-- The queries of stream clients, and what they keep, under the reference server's names.
CREATE SCHEMA IF NOT EXISTS queen_streams;
CREATE OR REPLACE VIEW queen_streams.queries AS
SELECT s.query_uuid AS id, s.name, s.source_queue, s.sink_queue, s.config_hash, s.created_at, s.updated_at FROM queend.stream_queries s;
