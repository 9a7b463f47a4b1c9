-- Dead letters: the view and the list.

CREATE OR REPLACE VIEW queen.dead_letter_queue AS
SELECT lpad(to_hex(d.id), 32, '0')::uuid AS id,
       queend.message_id(d.created_at, d.partition_id, d.record_offset) AS message_id,
       queend.partition_uuid(d.partition_id) AS partition_id,
       COALESCE(d.group_name, g.name) AS consumer_group, d.error AS error_message, d.retry_count,
       queend.moment(d.created_at) AS original_created_at, queend.moment(d.failed_at) AS failed_at, q.name AS queue,
       p.name AS partition, d.transaction_id, d.trace_id, d.producer_sub,
       CASE WHEN d.seal IS NULL THEN queend.as_jsonb(d.payload) END AS payload,
       d.record_offset AS message_offset, queend.origin_of(d.headers) AS origin
  FROM queend.dead_letters d
  JOIN queend.queues q ON q.id = d.queue_id
  JOIN queend.partitions p ON p.id = d.partition_id
  LEFT JOIN queend.consumer_groups g ON g.id = d.group_id;
COMMENT ON VIEW queen.dead_letter_queue IS
'Dead letters: copies that outlive their message. The payload is NULL if SQL cannot read it (see queen.messages). DELETE
removes a dead letter. The column origin is the first dead letter, if the message was redriven from one before.';

CREATE OR REPLACE FUNCTION queen.dead_letters_deleted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE WHEN queend.dead_delete(ARRAY[('x' || right(replace(OLD.id::text, '-', ''), 16))::bit(64)::bigint]) > 0
                     THEN OLD END;
END $$;
COMMENT ON FUNCTION queen.dead_letters_deleted() IS
'Handles DELETE on queen.dead_letter_queue: deletes the dead letter and keeps the message.';
CREATE OR REPLACE TRIGGER deleted INSTEAD OF DELETE ON queen.dead_letter_queue
    FOR EACH ROW EXECUTE FUNCTION queen.dead_letters_deleted();

CREATE OR REPLACE FUNCTION queen.get_dlq_messages_v1(filter jsonb DEFAULT '{}') RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('messages', COALESCE(jsonb_agg(jsonb_build_object(
               'id', queend.message_id(d.created_at, d.partition_id, d.record_offset),
               'transactionId', d.transaction_id, 'partitionId', queend.partition_uuid(d.partition_id),
               'queue', d.queue, 'partition', d.partition, 'consumerGroup', d.group_name, 'errorMessage', d.error,
               'retryCount', d.retries, 'data', CASE WHEN d.seal IS NULL THEN queend.as_jsonb(d.payload) END,
               'producerSub', d.producer_sub, 'createdAt', queend.iso(d.created_at),
               'failedAt', queend.iso(d.failed_at), 'offset', d.record_offset)
               || COALESCE(queend.origin_of(d.headers), '{}') ORDER BY d.failed_at DESC,
                                                             d.id DESC) FILTER (WHERE d.id IS NOT NULL), '[]'),
               'pagination', jsonb_build_object('limit', p.most, 'offset', p.skip))
      FROM (SELECT queend.filter_number(f.keys, 'limit', 100, 0, 1000) AS most,
                   queend.filter_number(f.keys, 'offset', 0, 0, 1000000) AS skip
              FROM (SELECT queend.filter_checked(filter, '{queue,consumerGroup,partition,from,to,error,limit,offset}')
                           AS keys) AS f) AS p
      LEFT JOIN LATERAL queend.dead_show(ARRAY(SELECT f
                                                 FROM queend.dead_find(CASE WHEN filter->>'queue' IS NOT NULL
                                                         THEN COALESCE((SELECT q.id FROM queend.queues q
                                                                         WHERE q.name = filter->>'queue'), 0) END,
                                                                       filter->>'partition', filter->>'consumerGroup',
                                                                       queend.moment_us(filter->>'from'),
                                                                       queend.moment_us(filter->>'to'), p.most,
                                                                       p.skip, filter->>'error') AS f)) AS d ON true
     GROUP BY p.most, p.skip
$$;
COMMENT ON FUNCTION queen.get_dlq_messages_v1(jsonb) IS
'Returns dead letters, newest failure first, like GET /api/v1/dlq. The filter is {"queue", "consumerGroup", "partition",
"from", "to", "error": a text in the error, "limit": 100 (at most 1000), "offset": 0}. The data is null if SQL cannot
read it (see queen.messages). Error 22023: an unknown key, or an invalid limit or time.';

CREATE OR REPLACE FUNCTION queen.redrive_dlq_v1(filter jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    v_keys  jsonb := queend.filter_given(filter, '{queue,consumerGroup,partition,from,to,error,limit}');
    v_queue int := (SELECT q.id FROM queend.queues q WHERE q.name = queend.required('queue', v_keys->>'queue'));
    v_most  int := queend.filter_number(v_keys, 'limit', 10000, 1, 10000);
    r       record;
BEGIN
    IF v_queue IS NULL THEN
        RAISE undefined_object USING MESSAGE = 'Queue not found';
    END IF;
    SELECT * INTO r FROM queend.dead_redrive(v_queue, filter->>'partition', filter->>'consumerGroup',
                                             queend.moment_us(filter->>'from'), queend.moment_us(filter->>'to'),
                                             filter->>'error', v_most);
    RETURN jsonb_build_object('success', true, 'queue', filter->>'queue', 'redriven', r.redriven, 'unreadable',
                              r.unreadable);
END $$;
COMMENT ON FUNCTION queen.redrive_dlq_v1(jsonb) IS
'Stores dead letters of a queue as new messages and removes the dead letters, like POST /api/v1/dlq/redrive. The filter
is {"queue", "consumerGroup", "partition", "from", "to", "error": a text in the error, "limit": 10000}. Returns
{success, queue, redriven, unreadable}. The count unreadable is the number of dead letters that stay, because SQL cannot
read them (compressed or encrypted). Errors: 22023 an unknown or empty filter or an invalid time, 42704 an unknown
queue, 0A000 an encrypted queue. Use autocommit: lanes of partitions stay locked until the transaction ends.';
