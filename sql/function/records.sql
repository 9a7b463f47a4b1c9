-- Records of a partition, one per row, from an offset on, for callers that read SQL; those that were deleted are left out.
-- state: plain; packed (a compressed row) or sealed: then queend alone can read the payload, which is NULL here.
CREATE OR REPLACE FUNCTION queend.records(p_part int, p_first bigint, p_take bigint)
RETURNS TABLE (record_offset bigint, record_id bytea, stored_at bigint, transaction_id text, trace_id uuid, producer_sub text, payload text, state text)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    l       record;
    v_body  bytea;
    v_holes boolean := EXISTS (SELECT FROM queend.holes h WHERE h.partition_id = p_part);
BEGIN
    FOR l IN SELECT x.* FROM queend.log x WHERE x.partition_id = p_part AND x.base >= queend.row_of(p_part, p_first) AND x.base - p_first < p_take ORDER BY x.base LOOP
        v_body := l.body || ''::bytea;      -- out of TOAST once
        RETURN QUERY
        SELECT l.base + i.ord, i.id, COALESCE(t.times[i.ord + 1], l.created_at), COALESCE(m.transaction_id, encode(i.id, 'hex')::uuid::text), m.trace_id, m.producer_sub,
               CASE WHEN m.seal IS NULL THEN convert_from(substr(v_body, b.starts[i.ord + 1] + 1, b.sizes[i.ord + 1]), 'UTF8') END,
               CASE WHEN m.seal IS NOT NULL THEN 'sealed' WHEN b.sizes IS NULL THEN 'packed' ELSE 'plain' END
          FROM queend.id_spread(l.ids) AS i
          CROSS JOIN queend.body_open(v_body, l.n) AS b
          CROSS JOIN queend.record_times(l.created_at, l.meta) AS t (times)
          LEFT JOIN (SELECT r.ord, p.* FROM queend.meta_records(l.meta) AS r CROSS JOIN LATERAL queend.meta_piece(r.piece) AS p) AS m ON m.ord = i.ord
         WHERE l.base + i.ord >= p_first AND l.base + i.ord - p_first < p_take
           AND NOT (v_holes AND EXISTS (SELECT FROM queend.holes h WHERE h.partition_id = p_part AND h.record_offset = l.base + i.ord))
         ORDER BY i.ord;
    END LOOP;
END $$;
