-- One row for each consumer group. Pops are not scans here, and leave no mark of having found nothing: last_empty_scan_at is that of a
-- group of the reference server that never scanned in vain.
CREATE OR REPLACE VIEW queen.consumer_watermarks AS
SELECT q.name AS queue_name, g.name AS consumer_group, timestamptz 'epoch' AS last_empty_scan_at, g.created_at AS updated_at
  FROM queend.consumer_groups g JOIN queend.queues q ON q.id = g.queue_id;
