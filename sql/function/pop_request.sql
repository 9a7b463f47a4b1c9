-- One request of queen.pop_unified_batch_v4: its result.
-- A pop without a partition walks the queue's partitions from one of them that chance chooses, a page at a time, until it has enough.
CREATE OR REPLACE FUNCTION queend.pop_request(p_request jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_name   text := NULLIF(p_request->>'partition_name', '');
    v_group  text := COALESCE(NULLIF(p_request->>'consumer_group', ''), '__QUEUE_MODE__');
    v_left   int := LEAST(GREATEST(COALESCE((p_request->>'batch_size')::int, 10), 1), 10000);
    v_parts  int := LEAST(GREATEST(COALESCE((p_request->>'max_partitions')::int, 1), 1), 1000);
    v_worker text := COALESCE(NULLIF(p_request->>'worker_id', ''), queend.id_make()::text);
    v_auto   boolean := COALESCE((p_request->>'auto_ack')::boolean, false);
    v_from   bigint := queend.moment_us(NULLIF(NULLIF(p_request->>'sub_from', ''), 'now'));
    v_page   int[];
    v_start  int := 0;
    v_after  int;
    v_round  int;
    v_part   int;
    v_status int := 0;
    v_found  jsonb := '[]';
    v_taken  int[] := '{}';
    v_us     bigint;
    q        queend.queues;
    g        record;
    p        record;
BEGIN
    SELECT * INTO q FROM queend.queues x WHERE x.name = p_request->>'queue_name';
    IF v_name IS NOT NULL THEN
        SELECT x.id INTO v_part FROM queend.partitions x WHERE x.queue_id = q.id AND x.name = v_name;
        IF v_part IS NULL THEN
            RETURN queend.pop_result(p_request, v_group, NULL, '{}', '[]', 'partition_not_found', false);
        END IF;
    ELSIF q.id IS NULL THEN
        RETURN queend.pop_result(p_request, v_group, NULL, '{}', '[]', 'no_available_partition', false);
    END IF;
    SELECT r.group_id INTO g FROM queend.group_resolve(q.id, v_group, CASE WHEN p_request->>'sub_from' = 'now' THEN 'new' ELSE p_request->>'sub_mode' END, v_from) AS r;
    v_us := COALESCE(NULLIF((p_request->>'lease_seconds')::int, 0), NULLIF(q.lease_time, 0), 60) * 1000000::bigint;
    IF v_part IS NOT NULL THEN
        SELECT * INTO p FROM queend.pop_partition(v_part, g.group_id, v_left, queend.lease_uuid(v_worker), v_us, v_auto);
        IF p.messages IS NULL THEN
            RETURN queend.pop_result(p_request, v_group, NULL, '{}', '[]', CASE p.status WHEN 2 THEN 'lease_held' WHEN 5 THEN 'unreadable' END, p.status = 3 AND q.window_buffer > 0);
        END IF;
        RETURN queend.pop_result(p_request, v_group, CASE WHEN NOT v_auto THEN v_worker END, ARRAY[v_part], p.messages, NULL, false);
    END IF;
    SELECT x.id INTO v_start FROM queend.partitions x
     WHERE x.queue_id = q.id AND x.id >= (SELECT min(y.id) + floor(random() * (max(y.id) - min(y.id) + 1))::int FROM queend.partitions y WHERE y.queue_id = q.id) ORDER BY x.id LIMIT 1;
    FOR v_round IN 1 .. 2 LOOP      -- from there to the end, then from the beginning to there
        v_after := CASE WHEN v_round = 1 THEN COALESCE(v_start, 1) - 1 ELSE 0 END;
        LOOP
            SELECT array_agg(s.partition_id ORDER BY s.partition_id) FILTER (WHERE s.head >= 0 AND s.lease_until <= queend.now_us()),
                   max(s.partition_id) FILTER (WHERE s.head = -1) INTO v_page, v_after
              FROM queend.pop_scan(q.id, g.group_id, v_after, 1000) AS s;
            FOREACH v_part IN ARRAY COALESCE(v_page, '{}') LOOP
                CONTINUE WHEN v_round = 2 AND v_part >= v_start;
                SELECT * INTO p FROM queend.pop_partition(v_part, g.group_id, v_left, queend.lease_uuid(v_worker), v_us, v_auto);
                v_status := GREATEST(v_status, p.status);
                IF p.messages IS NOT NULL THEN
                    v_taken := v_taken || v_part;
                    v_found := v_found || p.messages;
                    v_left := v_left - jsonb_array_length(p.messages);
                    IF v_left = 0 OR cardinality(v_taken) = v_parts THEN
                        RETURN queend.pop_result(p_request, v_group, CASE WHEN NOT v_auto THEN v_worker END, v_taken, v_found, NULL, false);
                    END IF;
                END IF;
            END LOOP;
            EXIT WHEN v_after IS NULL OR v_round = 2 AND v_after >= v_start;
        END LOOP;
    END LOOP;
    IF v_taken = '{}' THEN
        RETURN queend.pop_result(p_request, v_group, NULL, '{}', '[]', CASE WHEN v_status = 5 THEN 'unreadable' ELSE 'no_available_partition' END, v_status = 3 AND q.window_buffer > 0);
    END IF;
    RETURN queend.pop_result(p_request, v_group, CASE WHEN NOT v_auto THEN v_worker END, v_taken, v_found, NULL, false);
END $$;
