-- Runs a cycle, as daemons of editions 0 to 5 call it: without `waits` and `gone`. A cycle that stores nothing is an
-- error for them.
CREATE OR REPLACE FUNCTION queend.stream_cycle(p_version bigint, p_query uuid, p_part int,
    p_set text[], p_value text[], p_end double precision[], p_unset text[],
    p_lanes int[], p_row int[], p_skip int[], p_n int[], p_kind smallint[], p_lo uuid[], p_hi uuid[], p_ids bytea[],
    p_body bytea[], p_meta bytea[], p_group text, p_ack bytea, p_lease uuid, p_count int, p_dead boolean, p_error text,
    p_release boolean, OUT error text, OUT stale bigint, OUT queue text, OUT base bigint[], OUT created_at bigint[],
    OUT dups json, OUT group_id int, OUT committed bigint, OUT head bigint, OUT released boolean)
LANGUAGE sql AS $$
    SELECT CASE WHEN c.gone THEN 'The state has changed since it was read: read it again' ELSE c.error END, c.stale,
           c.queue, c.base, c.created_at, c.dups, c.group_id, c.committed, c.head, c.released
      FROM queend.stream_cycle(p_version, p_query, p_part, p_set, p_value, p_end, p_unset, p_lanes, p_row, p_skip, p_n,
                               p_kind, p_lo, p_hi, p_ids, p_body, p_meta, p_group, p_ack, p_lease, p_count, p_dead,
                               p_error, p_release, 0) AS c
$$;
