-- Notes for the history how many partitions queues have, where it is another number than was noted last and no walk is under way.
CREATE OR REPLACE FUNCTION queend.stats_note() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO queend.metric_partitions AS m (bucket, queue_id, partitions)
    SELECT queend.now_us() / 60000000 * 60000000, s.queue_id, s.partitions FROM queend.stat_queues s
     WHERE s.visit_after IS NULL
       AND s.partitions IS DISTINCT FROM (SELECT x.partitions FROM queend.metric_partitions x WHERE x.queue_id = s.queue_id ORDER BY x.bucket DESC LIMIT 1)
    ON CONFLICT (queue_id, bucket) DO UPDATE SET partitions = excluded.partitions;
END $$;
