-- Moves the start of the group's recorded subscriptions; what was consumed already stays consumed.
CREATE OR REPLACE FUNCTION queen.update_consumer_group_subscription_v1(consumer_group text, new_timestamp timestamptz) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT jsonb_build_object('success', true, 'consumerGroup', consumer_group, 'newTimestamp', new_timestamp, 'rowsUpdated', count(*))
      FROM queend.group_subscribe(consumer_group, (extract(epoch FROM new_timestamp) * 1000000)::bigint) AS s
$$;
