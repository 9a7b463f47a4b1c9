-- Pops for a caller that speaks SQL: claims at most p_take records of a partition for a group and reads them. messages: in order, as
-- queen.pop_unified_batch_v4 gives them; NULL: nothing was claimed, status says why: 0 nothing there, 2 leased, 3 not yet, 5 what comes
-- next SQL cannot read (compressed or sealed: queend hands it out over HTTP). A delivery ends before such a record. p_auto: acknowledged at once.
CREATE OR REPLACE FUNCTION queend.pop_partition(p_part int, p_group int, p_take int, p_lease uuid, p_lease_us bigint, p_auto boolean, OUT status int, OUT messages jsonb)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    none    CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    q       record;
    c       record;
    v_count int;
    v_next  bigint;
BEGIN
    SELECT p.name, u.delayed_processing * 1000000::bigint AS delay, u.window_buffer * 1000000::bigint AS quiet, CASE WHEN u.ttl_set THEN u.ttl ELSE 0 END * 1000000::bigint AS ttl
      INTO q FROM queend.partitions p JOIN queend.queues u ON u.id = p.queue_id WHERE p.id = p_part;
    SELECT max(r.status) AS status, min(r.first) FILTER (WHERE r.status = 1) AS first, sum(r.take) FILTER (WHERE r.status = 1) AS take INTO c
      FROM queend.pop(0, ARRAY[1], ARRAY[p_part], ARRAY[p_group], ARRAY[true], ARRAY[p_take], ARRAY[1], ARRAY[false], ARRAY[p_lease], ARRAY[p_lease_us], ARRAY[q.delay],
                      ARRAY[q.quiet], ARRAY[q.ttl]) AS r;
    status := c.status;
    IF c.first IS NULL THEN
        RETURN;
    END IF;
    SELECT count(*), max(r.record_offset) + 1, jsonb_agg(jsonb_build_object(
               'id', queend.message_id(r.stored_at, p_part, r.record_offset), 'transactionId', r.transaction_id, 'traceId', r.trace_id, 'data', r.data, 'producerSub', r.producer_sub,
               'createdAt', queend.iso(r.stored_at), 'partitionId', queend.partition_uuid(p_part), 'partition', q.name) ORDER BY r.record_offset)
      INTO v_count, v_next, messages
      FROM (SELECT x.*, bool_and(x.data IS NOT NULL) OVER (ORDER BY x.record_offset) AS readable
              FROM (SELECT y.*, queend.as_jsonb(y.payload) AS data FROM queend.records(p_part, c.first, c.take) AS y) AS x) AS r
     WHERE r.readable;
    IF v_count = 0 THEN
        PERFORM queend.release(ARRAY[p_part], ARRAY[p_group], ARRAY[p_lease]);
        status := 5;
    ELSIF p_auto THEN
        UPDATE queend.cursors k
           SET committed = v_next - 1, lease_end = v_next - 1, lease_id = none, lease_until = 0, retries = 0,
               row_base = CASE WHEN EXISTS (SELECT FROM queend.log l WHERE l.partition_id = p_part AND l.base = v_next) THEN v_next ELSE queend.row_of(p_part, v_next - 1) END
         WHERE k.partition_id = p_part AND k.group_id = p_group;
    ELSIF v_next < c.first + c.take THEN
        UPDATE queend.cursors k SET lease_end = v_next - 1 WHERE k.partition_id = p_part AND k.group_id = p_group;
    END IF;
    PERFORM queend.leases_keep(ARRAY[p_lease], ARRAY[p_part], ARRAY[p_group], true);
END $$;
