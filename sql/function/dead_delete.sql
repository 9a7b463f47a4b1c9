-- Deletes dead letters by their ids, and the copies of compressed rows that none is left of. Returns how many went.
CREATE OR REPLACE FUNCTION queend.dead_delete(p_id bigint[]) RETURNS int
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_gone int;
    v_part int[];
    v_at   bigint[];
BEGIN
    WITH gone AS (
        DELETE FROM queend.dead_letters d WHERE d.id = ANY (p_id) RETURNING d.partition_id, d.record_offset, d.payload)
    SELECT count(*), array_agg(g.partition_id) FILTER (WHERE g.payload IS NULL), array_agg(g.record_offset) FILTER (WHERE g.payload IS NULL)
      INTO v_gone, v_part, v_at FROM gone g;
    IF v_part IS NOT NULL THEN
        DELETE FROM queend.dead_bodies b
         WHERE (b.partition_id, b.base) IN (
            SELECT x.partition_id, x.base FROM unnest(v_part, v_at) AS u (part, at)
             CROSS JOIN LATERAL (SELECT y.* FROM queend.dead_bodies y WHERE y.partition_id = u.part AND y.base <= u.at ORDER BY y.base DESC LIMIT 1) AS x
             WHERE NOT EXISTS (SELECT FROM queend.dead_letters d WHERE d.partition_id = x.partition_id AND d.record_offset >= x.base
                                  AND d.record_offset < x.base + x.n AND d.payload IS NULL));
    END IF;
    RETURN v_gone;
END $$;
