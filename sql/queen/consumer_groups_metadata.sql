-- The named consumer groups of each queue and from where they read: all; or new, timestamp: from subscription_timestamp on.
CREATE OR REPLACE VIEW queen.consumer_groups_metadata AS
SELECT md5('g' || g.id)::uuid AS id, g.name AS consumer_group, q.name AS queue_name, ''::text AS partition_name, ''::text AS namespace, ''::text AS task,
       g.mode AS subscription_mode, queend.moment(g.start_at) AS subscription_timestamp, g.created_at
  FROM queend.consumer_groups g JOIN queend.queues q ON q.id = g.queue_id WHERE g.name <> '__QUEUE_MODE__';
