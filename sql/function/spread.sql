-- Queues without order (option ordered: false): the partition of a message that names none. Owns no table and takes no
-- lock.

-- Returns the number from which a record id gets its partition. The daemon computes the same (core/push/spread): a
-- message that is pushed again must meet the first one.
CREATE OR REPLACE FUNCTION queend.spread_number(p_id bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT AS $$
    SELECT CASE WHEN get_byte(p_id, 6) >> 4 = 7
                THEN ((w.b & 4095) + w.c + w.d) & 4294967295
                ELSE ('x' || encode(substr(sha256(p_id), 1, 4), 'hex'))::bit(32)::bigint END
      FROM (SELECT ('x' || encode(substr(p_id, 5, 4), 'hex'))::bit(32)::bigint AS b,
                   ('x' || encode(substr(p_id, 9, 4), 'hex'))::bit(32)::bigint AS c,
                   ('x' || encode(substr(p_id, 13, 4), 'hex'))::bit(32)::bigint AS d) AS w
$$;

-- Returns a new UUID of version 7 for a queue without order. The numbers of a session's ids (spread_number) count up,
-- because the last part of an id completes the two random parts before it.
CREATE OR REPLACE FUNCTION queend.id_counted() RETURNS uuid
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_turn   bigint := COALESCE(NULLIF(current_setting('queend.spread_turn', true), '')::bigint,
                                (random() * 4294967295)::bigint) + 1 & 4294967295;
    v_first  bigint := (random() * 4095)::bigint;
    v_second bigint := 2147483648 + ('x' || right(gen_random_uuid()::text, 8))::bit(32)::bigint % 1073741824;
BEGIN
    PERFORM set_config('queend.spread_turn', v_turn::text, false);
    RETURN encode(substr(int8send(queend.now_us() / 1000), 3, 6) || substr(int8send(28672 + v_first), 7, 2)
                  || substr(int8send(v_second), 5, 4)
                  || substr(int8send(v_turn - v_first - v_second & 4294967295), 5, 4), 'hex')::uuid;
END $$;

-- Returns the name of a partition of a queue without order, by its number from 0: ~00, ~01, …, ~1023.
CREATE OR REPLACE FUNCTION queend.spread_name(p_number bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE STRICT AS $$
    SELECT '~' || CASE WHEN p_number < 10 THEN '0' ELSE '' END || p_number
$$;

-- Returns whether one of these queues has no order.
CREATE OR REPLACE FUNCTION queend.spreads(p_queue text[]) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM unnest(p_queue) AS u (name)
                     CROSS JOIN LATERAL (SELECT x.ordered FROM queend.queues x WHERE x.name = u.name OFFSET 0) AS q
                    WHERE NOT q.ordered)
$$;

-- Returns the partitions of messages. Where a queue without order has the partition Default, that becomes one of the
-- queue's partitions, by the transaction id. All other partitions, and those of unknown queues, stay as they are.
CREATE OR REPLACE FUNCTION queend.spread_places(p_queue text[], p_partition text[], p_transaction text[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT queend.spreads(p_queue) THEN
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
