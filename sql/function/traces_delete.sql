-- Deletes the traces of one message.
CREATE OR REPLACE FUNCTION queend.traces_delete(p_part int, p_id bytea) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    WITH gone AS (DELETE FROM queend.traces t WHERE t.partition_id = p_part AND t.record_id = p_id RETURNING t.id)
    DELETE FROM queend.trace_names n WHERE n.trace_id IN (SELECT g.id FROM gone g);
END $$;
