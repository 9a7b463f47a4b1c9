-- Queues without order (option ordered: false): the partition of a message that names none. Owns nothing, takes no lock.

-- Returns the number from which a record id gets its partition, as spread_number in the daemon (core/push/spread). Equal
-- at every time: a message that is pushed again must meet the first one.
CREATE OR REPLACE FUNCTION queend.spread_number(p_id bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT AS $$
    SELECT CASE WHEN get_byte(p_id, 6) >> 4 = 7
                THEN ((w.b & 4095) + w.c + w.d) & 4294967295
                ELSE ('x' || encode(substr(sha256(p_id), 1, 4), 'hex'))::bit(32)::bigint END
      FROM (SELECT ('x' || encode(substr(p_id, 5, 4), 'hex'))::bit(32)::bigint AS b,
                   ('x' || encode(substr(p_id, 9, 4), 'hex'))::bit(32)::bigint AS c,
                   ('x' || encode(substr(p_id, 13, 4), 'hex'))::bit(32)::bigint AS d) AS w
$$;

-- Returns the name of a partition of a queue without order, by its number from 0: ~00, ~01, …, ~1023.
CREATE OR REPLACE FUNCTION queend.spread_name(p_number bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT AS $$
    SELECT '~' || CASE WHEN p_number < 10 THEN '0' ELSE '' END || p_number
$$;

-- Returns the partitions of messages. Where a queue without order has the partition Default, that becomes one of the
-- queue's partitions, by the transaction id. All other partitions, and those of unknown queues, stay as they are.
CREATE OR REPLACE FUNCTION queend.spread_places(p_queue text[], p_partition text[], p_transaction text[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM queend.queues q WHERE q.name = ANY (p_queue) AND NOT q.ordered) THEN
        RETURN p_partition;
    END IF;
    RETURN (SELECT array_agg(CASE WHEN u.partition = 'Default' AND NOT q.ordered
                                  THEN queend.spread_name(queend.spread_number(queend.record_id(u.transaction))
                                                          % q.spread_partitions)
                                  ELSE u.partition END ORDER BY u.ord)
              FROM unnest(p_queue, p_partition, p_transaction) WITH ORDINALITY AS u (queue, partition, transaction, ord)
              LEFT JOIN LATERAL (SELECT x.ordered, x.spread_partitions FROM queend.queues x
                                  WHERE x.name = u.queue OFFSET 0) AS q ON true);
END $$;
