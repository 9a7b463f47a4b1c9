-- Acknowledgments and lease extensions.

CREATE OR REPLACE FUNCTION queen.ack_messages_v2(items jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_result jsonb;
    v_part   int[];
    v_group  int[];
BEGIN
    PERFORM queend.members_checked(items, '{transactionId,partitionId,consumerGroup,leaseId,status,error,delayMs,
                                            cumulative,index}');
    WITH item AS MATERIALIZED (
        SELECT e.ord::int AS ord, e.v, p.id AS part, p.name AS partition, q.name AS queue, q.retry_limit, g.id AS grp,
               p.id IS NULL AND queend.partition_removed(e.v->>'partitionId') AS gone,
               queend.lease_uuid(e.v->>'leaseId') AS lease, queend.record_id(e.v->>'transactionId') AS rid,
               CASE e.v->>'status' WHEN 'completed' THEN u.upto WHEN 'success' THEN u.upto WHEN 'failed' THEN 1
                    WHEN 'dlq' THEN 2 WHEN 'retry' THEN 3 END AS status
          FROM jsonb_array_elements(items) WITH ORDINALITY AS e (v, ord)
          CROSS JOIN LATERAL (SELECT CASE WHEN e.v->'cumulative' = 'true' THEN 4 ELSE 0 END AS upto) AS u
          LEFT JOIN queend.partitions p ON p.id = queend.partition_number(e.v->>'partitionId')
          LEFT JOIN queend.queues q ON q.id = p.queue_id
          LEFT JOIN queend.consumer_groups g ON g.queue_id = q.id
                                                AND g.name = COALESCE(NULLIF(e.v->>'consumerGroup', ''),
                                                                      '__QUEUE_MODE__')),
    called AS MATERIALIZED (
        SELECT i.*, dense_rank() OVER (ORDER BY i.part, i.grp, i.lease) AS call,
               row_number() OVER (PARTITION BY i.part, i.grp, i.lease ORDER BY i.ord) AS place
          FROM item i WHERE i.part IS NOT NULL AND i.rid IS NOT NULL AND i.status IS NOT NULL),
    call AS MATERIALIZED (
        SELECT c.call, min(c.part) AS part, min(c.grp) AS grp, min(c.lease::text)::uuid AS lease, count(*)::int AS n,
               string_agg(c.rid, '' ORDER BY c.ord) AS ids,
               string_agg(set_byte(E'\\x00', 0, c.status), '' ORDER BY c.ord) AS status,
               min(c.retry_limit) AS retry_limit,
               max(CASE WHEN c.status IN (1, 3) THEN queend.delay_us(c.v->'delayMs') END) AS delay
          FROM called c GROUP BY c.call),
    done AS MATERIALIZED (
        SELECT a.*
          FROM (SELECT array_agg(c.part ORDER BY c.call) AS part, array_agg(c.grp ORDER BY c.call) AS grp,
                       array_agg(c.lease ORDER BY c.call) AS lease,
                       array_agg(c.n ORDER BY c.call) AS n, array_agg(c.ids ORDER BY c.call) AS ids,
                       array_agg(c.status ORDER BY c.call) AS status,
                       array_agg(c.retry_limit ORDER BY c.call) AS retry_limit,
                       array_agg(c.delay ORDER BY c.call) AS delay FROM call c HAVING count(*) > 0) AS c
         CROSS JOIN LATERAL queend.ack(0, c.part, c.grp, c.lease, c.n, c.ids, c.status, c.retry_limit, c.delay,
                                       ARRAY(SELECT x.call::int - 1 FROM called x WHERE x.v->>'error' IS NOT NULL
                                              ORDER BY x.call, x.place),
                                       ARRAY(SELECT x.place::int - 1 FROM called x WHERE x.v->>'error' IS NOT NULL
                                              ORDER BY x.call, x.place),
                                       ARRAY(SELECT x.v->>'error' FROM called x WHERE x.v->>'error' IS NOT NULL
                                              ORDER BY x.call, x.place)) AS a)
    SELECT COALESCE(jsonb_agg(jsonb_build_object(
               'index', COALESCE(i.v->'index', to_jsonb(i.ord - 1)), 'transactionId', i.v->'transactionId',
               'success', i.status IS NOT NULL AND (i.gone OR r.code IS NOT NULL AND r.code & 216 = 0),
               'error',
               CASE WHEN i.status IS NULL THEN 'status must be completed, failed, retry or dlq' WHEN i.gone THEN NULL
                    WHEN r.code IS NULL OR r.code & 8 > 0 THEN 'Message not found'
                    WHEN r.code & 16 > 0 AND i.lease IS NULL
                         THEN 'Invalid or expired lease: the consumer group holds none on this message'
                    WHEN r.code & 16 > 0 THEN 'Invalid or expired lease'
                    WHEN r.code & 64 > 0 THEN 'Message already committed' WHEN r.code & 128 > 0
                         THEN 'Too many messages are acknowledged out of order' END,
               'queueName', i.queue, 'partitionName', i.partition, 'leaseReleased', COALESCE(r.code & 4 > 0, false),
               'dlq', COALESCE(r.code & 2 > 0, false)) ORDER BY i.ord), '[]'),
           (SELECT array_agg(c.part ORDER BY c.call) FROM call c JOIN done d ON d.ord = c.call - 1
             WHERE d.released AND d.retry_until = 0),
           (SELECT array_agg(c.grp ORDER BY c.call) FROM call c JOIN done d ON d.ord = c.call - 1
             WHERE d.released AND d.retry_until = 0)
      INTO v_result, v_part, v_group
      FROM item i
      LEFT JOIN (SELECT c.ord, get_byte(d.codes, c.place::int - 1) AS code FROM called c
                   JOIN done d ON d.ord = c.call - 1) AS r ON r.ord = i.ord;
    PERFORM queend.lease_freed(v_part, v_group);
    RETURN v_result;
END $$;
COMMENT ON FUNCTION queen.ack_messages_v2(jsonb) IS
'Acknowledges messages by the rules of POST /api/v1/ack/batch: [{"transactionId", "partitionId", "consumerGroup":
"__QUEUE_MODE__", "leaseId", "status", "error", "delayMs", "cumulative", "index"}, …]. Without leaseId, the lease of any
holder counts. The status is completed (or success), failed, retry or dlq. With cumulative, all earlier messages are
completed as well. The index is the position in the list by default. Returns the results in that order: [{index,
transactionId, success, error, queueName, partitionName, leaseReleased, dlq}, …]. The error is Message not found,
Invalid or expired lease, Message already committed, or names an invalid status. Messages of a deleted queue are a
success. Use autocommit: cursors stay locked until the transaction ends.';

CREATE OR REPLACE FUNCTION queen.renew_lease_v2(items jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM queend.members_checked(items, '{leaseId,extendSeconds,index}');
    RETURN (
    WITH item AS MATERIALIZED (
        SELECT e.ord::int AS ord, e.v,
               COALESCE(queend.lease_uuid(e.v->>'leaseId'), '00000000-0000-0000-0000-000000000000') AS lease,
               queend.filter_number(e.v, 'extendSeconds', 60, 1, 31536000) AS seconds
          FROM jsonb_array_elements(items) WITH ORDINALITY AS e (v, ord)),
    done AS MATERIALIZED (
        SELECT r.*
          FROM queend.renew(ARRAY(SELECT i.lease FROM item i ORDER BY i.ord),
                            ARRAY(SELECT i.seconds FROM item i ORDER BY i.ord), '{}', '{}', '{}') AS r)
    SELECT COALESCE(jsonb_agg(jsonb_build_object(
               'index', COALESCE(i.v->'index', to_jsonb(i.ord - 1)), 'leaseId', i.v->'leaseId', 'success', d.status = 0,
               'error', CASE d.status WHEN 1 THEN 'Lease not found' WHEN 2 THEN 'Lease already expired' END,
               'expiresAt', CASE WHEN d.status = 0 THEN queend.iso(d.expires_at) END) ORDER BY i.ord), '[]')
      FROM item i JOIN done d ON d.ord = i.ord - 1);
END $$;
COMMENT ON FUNCTION queen.renew_lease_v2(jsonb) IS
'Extends leases, for all partitions of each lease: [{"leaseId", "extendSeconds": 60, "index"}, …]. A lease is never
shortened. Returns [{index, leaseId, success, error, expiresAt}, …]. The error is Lease not found or Lease already
expired. The expiresAt is the earliest expiry. Error 22023: extendSeconds outside 1 to 31536000.';
