-- Stores messages that are given one by one, in their order per partition; queues and partitions that are missing are made. For
-- callers that write SQL: the daemon has its own way to push (function/push.sql), which this one ends in.
-- One row per item (0-based ord): whether the partition had its transaction id already, as the older message or as an earlier item,
-- and where and when (µs) that id is stored. Names were checked (item_check). Error 0A000: a queue is encrypted, which SQL cannot do.
--
-- In a transaction that is READ COMMITTED: a name that changes its meaning while this waits for a lane is found out by the version of
-- the catalogue and looked up again. The lanes are held to the end of the transaction, so that should be now.
CREATE OR REPLACE FUNCTION queend.push_items(p_queue text[], p_partition text[], p_transaction text[], p_payload text[], p_trace uuid[], p_producer text[])
RETURNS TABLE (ord int, duplicate boolean, partition_id int, record_offset bigint, stored_at bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_version bigint;
    v_part    int[];
    v_queue   int[];
    v_sealed  text;
    a         record;
BEGIN
    IF cardinality(p_queue) = 0 THEN
        RETURN;
    END IF;
    FOR v_round IN 1 .. 10 LOOP
        SELECT c.version INTO v_version FROM queend.catalog c;
        SELECT array_agg(r.partition_id ORDER BY r.ord), array_agg(DISTINCT r.queue_id) INTO v_part, v_queue FROM queend.resolve(p_queue, p_partition) AS r;
        CONTINUE WHEN cardinality(v_part) IS DISTINCT FROM cardinality(p_queue);      -- a queue was deleted this moment
        SELECT min(q.name) INTO v_sealed FROM queend.queues q WHERE q.id = ANY (v_queue) AND q.encryption_enabled;
        IF v_sealed IS NOT NULL THEN
            RAISE feature_not_supported USING MESSAGE = format('queue "%s" is encrypted: SQL cannot seal what is pushed to it', v_sealed);
        END IF;
        SELECT * INTO a FROM queend.push_arrays(v_part, p_transaction, p_payload, p_trace, p_producer);

        RETURN QUERY
        WITH stored AS MATERIALIZED (
            SELECT s.* FROM queend.push(v_version, a.lanes, a.parts, a.skip, a.n, a.kind, a.lo, a.hi, a.ids, a.body, a.meta) AS s WHERE s.ord >= 0),
        placed AS MATERIALIZED (
            SELECT a.items[c.before + k] AS ord, s.dup_offset[k] >= 0 AS duplicate, c.part,
                   CASE WHEN s.dup_offset[k] >= 0 THEN s.dup_offset[k]
                        ELSE s.base + k - 1 - (SELECT count(*) FROM unnest(s.dup_offset[1:k]) AS d WHERE d >= 0) END AS at,
                   CASE WHEN s.dup_offset[k] >= 0 THEN s.dup_at[k] ELSE s.created_at END AS stored_at
              FROM (SELECT u.*, sum(u.n) OVER (ORDER BY u.ord) - u.n AS before FROM unnest(a.parts, a.n) WITH ORDINALITY AS u (part, n, ord)) AS c
              JOIN stored s ON s.ord = c.ord - 1
              CROSS JOIN LATERAL generate_series(1, c.n) AS k)
        SELECT p.ord - 1, COALESCE(p.duplicate, false), p.part, p.at, p.stored_at FROM placed p
        UNION ALL
        SELECT c.ord - 1, true, p.part, p.at, p.stored_at FROM unnest(a.copies, a.firsts) AS c (ord, first) JOIN placed p ON p.ord = c.first;
        IF FOUND THEN
            RETURN;
        END IF;
    END LOOP;
    RAISE object_in_use USING MESSAGE = 'the queues change faster than they can be looked up; try again';
END $$;
