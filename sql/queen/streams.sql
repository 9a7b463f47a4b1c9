-- Streams: views of the schema queen_streams. Every role may name them; they read with the caller's rights, so that
-- grants on the schema queend decide what a role sees.

CREATE SCHEMA IF NOT EXISTS queen_streams;

CREATE OR REPLACE VIEW queen_streams.queries WITH (security_invoker) AS
SELECT s.query_uuid AS id, s.name, s.source_queue, s.sink_queue, s.config_hash, s.created_at,
       s.updated_at FROM queend.stream_queries s;
COMMENT ON VIEW queen_streams.queries IS
'Queries of stream clients, under the names of the reference server.';

CREATE OR REPLACE VIEW queen_streams.state WITH (security_invoker) AS
SELECT q.query_uuid AS query_id, queend.partition_uuid(s.partition_id) AS partition_id, s.key,
       queend.as_jsonb(s.value) AS value, queend.moment(s.updated_at) AS updated_at,
       q.name AS query, s.value AS value_text
  FROM queend.stream_state s JOIN queend.stream_queries q ON q.id = s.query_id;
COMMENT ON VIEW queen_streams.state IS
'The value for each query, source partition and key. If jsonb cannot hold the JSON, value is NULL and value_text has
it.';

GRANT USAGE ON SCHEMA queen_streams TO PUBLIC;
GRANT SELECT ON queen_streams.queries, queen_streams.state TO PUBLIC;
