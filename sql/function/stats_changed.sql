-- Partitions whose kept figures are not up to date: written, claimed or acknowledged since the last look, or with a lease that has run
-- out; with p_floors also those whose floor rose (that compares every floor with the one kept). parts[i] is of queues[i]. since: the
-- moment before which every change is among them, to be kept (stats_keep) once all of them were visited.
-- Queues and groups that are gone leave the figures. A queue that is new, or whose groups were moved, is marked for a walk through all
-- of its partitions (stats_walk); when more than p_most rows of the log were written, so is every queue.
-- A moment in a row is read before the row is locked or committed: looks overlap by two seconds. What is committed later than that
-- after its moment (a transaction stood still) is found with its next change or by the next walk.
CREATE OR REPLACE FUNCTION queend.stats_changed(p_most int, p_whole boolean, p_floors boolean, OUT since bigint, OUT queues int[], OUT parts int[])
LANGUAGE plpgsql SET jit = off AS $$
DECLARE
    v_now   bigint := queend.now_us();
    v_since bigint := COALESCE((SELECT s.since FROM queend.stats s), v_now);    -- the first time every queue is new
    v_dead  CONSTANT int := 10000;
    v_parts int[];
BEGIN
    since := LEAST(COALESCE(queend.safe_time(), v_now - 60000000), v_now) - 2000000;

    WITH gone AS (DELETE FROM queend.stat_queues s WHERE NOT EXISTS (SELECT FROM queend.queues q WHERE q.id = s.queue_id) RETURNING s.queue_id)
    DELETE FROM queend.stat_partitions s USING gone g WHERE s.queue_id = g.queue_id;
    WITH gone AS (DELETE FROM queend.stat_groups s WHERE NOT EXISTS (SELECT FROM queend.consumer_groups g WHERE g.id = s.group_id) RETURNING s.group_id)
    DELETE FROM queend.stat_cursors s USING gone g WHERE s.group_id = g.group_id;
    INSERT INTO queend.stat_queues AS s (queue_id, epoch, visit_after) SELECT q.id, q.epoch, 0 FROM queend.queues q
        ON CONFLICT (queue_id) DO UPDATE SET epoch = excluded.epoch, visit_after = 0 WHERE s.epoch <> excluded.epoch;
    -- Dead letters are few, or wait for the next walk to be counted in full.
    UPDATE queend.stat_queues s SET dead = d.n
      FROM (SELECT x.queue_id, (SELECT count(*) FROM (SELECT FROM queend.dead_letters l WHERE l.queue_id = x.queue_id LIMIT v_dead + 1) AS l) AS n
              FROM queend.stat_queues x) AS d
     WHERE d.queue_id = s.queue_id AND d.n <> s.dead AND d.n <= v_dead;

    v_parts := queend.written_since(v_since, p_most);
    IF v_parts IS NULL AND NOT p_whole THEN
        since := NULL;
        RETURN;
    ELSIF v_parts IS NULL THEN
        UPDATE queend.stat_queues s SET visit_after = 0;
    END IF;
    SELECT array_agg(p.queue_id ORDER BY p.id), array_agg(p.id ORDER BY p.id) INTO queues, parts
      FROM (SELECT u.id FROM unnest(v_parts) AS u (id)
            UNION SELECT k.partition_id FROM queend.cursors k WHERE k.consumed_at >= v_since
            UNION SELECT s.partition_id FROM queend.stat_partitions s WHERE s.until > 0 AND s.until <= v_now
            UNION SELECT s.partition_id FROM queend.floors f JOIN queend.stat_partitions s ON s.partition_id = f.partition_id AND s.floor <> f.floor
                   WHERE p_floors) AS c
      JOIN queend.partitions p ON p.id = c.id;
END $$;
