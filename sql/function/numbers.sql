-- Numbers of queues, partitions and consumer groups: 1 to 2 147 483 647, given in turn.
-- Out: free numbers. Owns the sequences of queues, partitions and consumer_groups. Locks: none.
-- A sequence begins again at 1 after its end, so a number is reused only after all others.
--
-- Each function returns p_count free numbers, in ascending order until the sequence begins again. Free: no row in the
-- database has the number or refers to it. After a number in use, 1000 numbers are taken at a time, so that a long run
-- of numbers in use is passed quickly. Surplus numbers are dropped. Look-ups are scalar subqueries with OFFSET 0: each
-- can only be planned as a probe of a key. The functions run with the rights of their owner: a role that may insert a
-- name needs no right on a sequence.

-- Returns numbers for new partitions. A deleted partition keeps its number until queend.sweep has removed its rows.
CREATE OR REPLACE FUNCTION queend.partition_numbers(p_count int) RETURNS int[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    v_free int[] := '{}';
    v_take int := p_count;
BEGIN
    WHILE cardinality(v_free) < p_count LOOP
        v_free := v_free || ARRAY(
            SELECT u.id FROM (SELECT nextval('queend.partitions_id_seq')::int AS id FROM generate_series(1, v_take)
                              OFFSET 0) AS u
             WHERE (SELECT p.id FROM queend.partitions p WHERE p.id = u.id OFFSET 0) IS NULL
               AND (SELECT g.partition_id FROM queend.graves g WHERE g.partition_id = u.id OFFSET 0) IS NULL
               AND (SELECT c.partition_id FROM queend.cursors c WHERE c.partition_id = u.id LIMIT 1) IS NULL);
        v_take := GREATEST(p_count, 1000);
    END LOOP;
    RETURN v_free[1 : p_count];
END $$;

-- Returns numbers for new queues.
CREATE OR REPLACE FUNCTION queend.queue_numbers(p_count int) RETURNS int[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    v_free int[] := '{}';
    v_take int := p_count;
BEGIN
    WHILE cardinality(v_free) < p_count LOOP
        v_free := v_free || ARRAY(
            SELECT u.id FROM (SELECT nextval('queend.queues_id_seq')::int AS id FROM generate_series(1, v_take)
                              OFFSET 0) AS u
             WHERE (SELECT q.id FROM queend.queues q WHERE q.id = u.id OFFSET 0) IS NULL
               AND (SELECT p.queue_id FROM queend.partitions p WHERE p.queue_id = u.id LIMIT 1) IS NULL
               AND (SELECT g.queue_id FROM queend.consumer_groups g WHERE g.queue_id = u.id LIMIT 1) IS NULL
               AND (SELECT d.queue_id FROM queend.dead_letters d WHERE d.queue_id = u.id LIMIT 1) IS NULL);
        v_take := GREATEST(p_count, 1000);
    END LOOP;
    RETURN v_free[1 : p_count];
END $$;

-- Returns a number for a new consumer group. Cursors of a group that was deleted are removed by queend.tidy.
CREATE OR REPLACE FUNCTION queend.group_number() RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    v_id int;
BEGIN
    LOOP
        v_id := nextval('queend.consumer_groups_id_seq');
        EXIT WHEN NOT EXISTS (SELECT FROM queend.consumer_groups g WHERE g.id = v_id);
    END LOOP;
    RETURN v_id;
END $$;
