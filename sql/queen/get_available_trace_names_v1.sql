-- The names traces were noted under, the latest used first.
CREATE OR REPLACE FUNCTION queen.get_available_trace_names_v1(page_limit int DEFAULT 50, page_offset int DEFAULT 0) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('trace_names', COALESCE(jsonb_agg(jsonb_build_object(
               'trace_name', n.name, 'trace_count', n.traces, 'message_count', n.messages, 'last_seen', queend.iso(n.last)) ORDER BY n.last DESC, n.name), '[]'),
           'total', (SELECT count(DISTINCT x.name) FROM queend.trace_names x), 'pagination', jsonb_build_object('limit', page_limit, 'offset', page_offset))
      FROM (SELECT x.name, count(*) AS traces, count(DISTINCT (x.partition_id, x.record_id)) AS messages, max(x.created_at) AS last FROM queend.trace_names x
             GROUP BY x.name ORDER BY last DESC, x.name LIMIT page_limit OFFSET page_offset) AS n
$$;
