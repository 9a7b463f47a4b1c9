-- Queues: the view, creating, configuring and deleting them.

CREATE OR REPLACE VIEW queen.queues AS
SELECT queend.queue_uuid(q.id) AS id, q.name, q.namespace, q.task, q.priority, q.lease_time, q.retry_limit,
       q.retry_delay, q.ttl, q.dead_letter_queue, q.dlq_after_max_retries,
       q.delayed_processing, q.window_buffer, q.retention_seconds, q.completed_retention_seconds, q.retention_enabled,
       q.encryption_enabled, q.max_wait_time_seconds, q.max_size AS max_queue_size, q.created_at
  FROM queend.queues q;
COMMENT ON VIEW queen.queues IS
'Queues with their options, in seconds; retry_delay in milliseconds. DELETE removes a queue with its content. The
function queen.configure_queue_v1 creates one or sets its options.';

CREATE OR REPLACE FUNCTION queen.queues_deleted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE WHEN queend.queue_delete(OLD.name) THEN OLD END;
END $$;
COMMENT ON FUNCTION queen.queues_deleted() IS
'Handles DELETE on queen.queues: deletes the queue with its content.';
CREATE OR REPLACE TRIGGER deleted INSTEAD OF DELETE ON queen.queues
    FOR EACH ROW EXECUTE FUNCTION queen.queues_deleted();

CREATE OR REPLACE FUNCTION queen.configure_queue_v1(queue text, options jsonb DEFAULT '{}') RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM queend.item_check(queue, 'Default', NULL),
            queend.filter_checked(options, ARRAY(SELECT o.name FROM queend.queue_options() AS o)
                                           || '{encryption,encryptionEnabled,namespace,task,mode}');
    IF options->>'mode' NOT IN ('merge', 'replace', 'reset') THEN
        RAISE invalid_parameter_value USING MESSAGE = 'mode must be merge or replace';
    END IF;
    PERFORM queend.options_checked(options);
    RETURN queend.configure(queue, options->>'namespace', options->>'task', options - ARRAY['namespace', 'task']);
END $$;
COMMENT ON FUNCTION queen.configure_queue_v1(text, jsonb) IS
'Creates a queue, or changes its options. Options that are not named keep their values; null resets an option. The
options are those of POST /api/v1/configure, and namespace, task, mode. Error 22023: an unknown option or mode, or a
value out of range.';

CREATE OR REPLACE FUNCTION queen.queue_options_v1(queue text) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_object_agg(o.name, jsonb_build_object('value', to_jsonb(q)->o.col, 'inForce', f.all->o.name,
                                                       'default', o.otherwise, 'asked', o.name = ANY (q.asked)))
           || jsonb_build_object('encryptionEnabled', jsonb_build_object(
                  'value', q.encryption_enabled, 'inForce', q.encryption_enabled, 'default', false,
                  'asked', 'encryptionEnabled' = ANY (q.asked)))
      FROM queend.queues q CROSS JOIN LATERAL (SELECT queend.options_in_force(q) AS all) AS f
      CROSS JOIN queend.queue_options() AS o
     WHERE q.name = queue_options_v1.queue
     GROUP BY q.id, f.all
$$;
COMMENT ON FUNCTION queen.queue_options_v1(text) IS
'Returns the options of a queue by name: {value, inForce, default, asked}. These are the stored value, the effective
value (null if the option has no effect), the default, and whether the option was set. The result is NULL if the queue
does not exist.';

CREATE OR REPLACE FUNCTION queen.delete_queue_v1(queue text) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT jsonb_build_object('deleted', true, 'queue', queue,
                              'existed', queend.queue_delete(queend.required('queue', queue)))
$$;
COMMENT ON FUNCTION queen.delete_queue_v1(text) IS
'Deletes a queue with its content. Returns {deleted, queue, existed}.';
