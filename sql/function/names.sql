-- Numbers of names, and their bounds: queues, partitions and groups. Owns queend.name_counts, written by triggers.
-- Locks: rows of counts with SKIP LOCKED; an advisory lock per queue when a bound is near.

-- Returns how many names of a kind there may be before this session is refused a new one; NULL: no bound. Parameter
-- p_kind: queue, or partition or group of a queue. A daemon sets the bound for requests of its clients to the control
-- plane; the data plane gives its bounds with each call. For programs: ALTER ROLE … SET queend.max_queues = 1000.
CREATE OR REPLACE FUNCTION queend.names_bound(p_kind text) RETURNS int
LANGUAGE sql STABLE AS $$
    SELECT NULLIF(NULLIF(current_setting('queend.max_' || p_kind || 's', true), '')::int, 0)
$$;

-- Refuses to create a name because there are as many as are allowed. Error QD409, which daemons answer with 409. The
-- daemon words the same refusal in queend/core/find/ask.pyx.
CREATE OR REPLACE FUNCTION queend.names_full(p_kind text, p_queue text, p_most int) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'QD409', MESSAGE =
        CASE WHEN p_kind = 'queue' THEN 'There are as many queues'
             ELSE format('Queue %s has as many %s', p_queue,
                         CASE p_kind WHEN 'group' THEN 'consumer groups' ELSE 'partitions' END) END
        || format(' as QUEEND_MAX_%sS allows: %s', upper(p_kind), p_most);
END $$;

-- Returns for how many of p_wanted names of a kind there is room in a queue (0: the database); p_most NULL: for all.
-- Names of transactions that are still open are not seen. So if more than a hundredth of the room left is wanted,
-- callers go one after the other, until the end of their transactions. The bound then holds unless more than a hundred
-- callers create names at the same time. Requires READ COMMITTED. Callers ask for the database first, then for queues
-- ascending.
CREATE OR REPLACE FUNCTION queend.names_room(p_queue int, p_kind text, p_most int, p_wanted int) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    v_left bigint;
BEGIN
    IF p_most IS NULL THEN
        RETURN p_wanted;
    END IF;
    v_left := p_most - queend.names_total(p_queue, p_kind);
    IF v_left > 0 AND v_left < 100::bigint * p_wanted THEN
        PERFORM pg_advisory_xact_lock(1903519078, p_queue);
        v_left := p_most - queend.names_total(p_queue, p_kind);
    END IF;
    RETURN LEAST(GREATEST(v_left, 0), p_wanted);
END $$;

-- Returns how many names of a kind (queue, partition, group) a queue has; queue 0: the database.
CREATE OR REPLACE FUNCTION queend.names_total(p_queue int, p_kind text) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT COALESCE(sum(c.n), 0) FROM queend.name_counts c WHERE c.queue_id = p_queue AND c.kind = p_kind
$$;

-- Refuses a name of more than 255 bytes, the bound of every interface. Error 22023.
CREATE OR REPLACE FUNCTION queend.name_check(p_what text, p_name text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF octet_length(p_name) > 255 THEN
        RAISE invalid_parameter_value
              USING MESSAGE = format('%s must have at most 255 bytes, and has %s', p_what, octet_length(p_name));
    END IF;
END $$;

-- Counts queues, partitions and groups that were created or removed, and refuses names that are too long. The trigger
-- of their tables, once a statement. Runs with the rights of its owner: a role that may create a queue need not be able
-- to write to the counts.
CREATE OR REPLACE FUNCTION queend.names_counted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE
    v_sign CONSTANT int := CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END;
BEGIN
    IF v_sign > 0 THEN
        PERFORM queend.name_check(CASE TG_TABLE_NAME WHEN 'queues' THEN 'queue' WHEN 'partitions' THEN 'partition'
                                                     ELSE 'consumerGroup' END, c.name)
           FROM changed c WHERE octet_length(c.name) > 255;
    END IF;
    IF TG_TABLE_NAME = 'queues' THEN
        PERFORM queend.names_count(0, 'queue', c.n) FROM (SELECT v_sign * count(*)::int AS n FROM changed) AS c
          WHERE c.n <> 0;
        IF v_sign < 0 THEN
            DELETE FROM queend.name_counts c USING changed d WHERE c.queue_id = d.id;
        END IF;
    ELSE
        PERFORM queend.names_count(c.queue_id, CASE TG_TABLE_NAME WHEN 'partitions' THEN 'partition' ELSE 'group' END,
                                   c.n)
           FROM (SELECT d.queue_id, v_sign * count(*)::int AS n FROM changed d GROUP BY d.queue_id
                  ORDER BY d.queue_id) AS c;
    END IF;
    RETURN NULL;
END $$;

-- Adds p_n to the number of names of a kind that a queue has (0: the database). Writes to an unlocked row, or to a new
-- one, so no caller waits. There are as many rows as there were callers at once.
CREATE OR REPLACE FUNCTION queend.names_count(p_queue int, p_kind text, p_n int) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint;
BEGIN
    SELECT c.id INTO v_id FROM queend.name_counts c
     WHERE c.queue_id = p_queue AND c.kind = p_kind LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE queend.name_counts c SET n = c.n + p_n WHERE c.id = v_id;
    ELSE
        INSERT INTO queend.name_counts (queue_id, n, kind) VALUES (p_queue, p_n, p_kind);
    END IF;
END $$;

-- Returns an argument of a function that deletes or moves. Raises 22023 if it is NULL or an empty text, so that neither
-- can mean "all".
CREATE OR REPLACE FUNCTION queend.required(p_name text, p_value anyelement) RETURNS anyelement
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_value IS NULL OR p_value::text = '' THEN
        RAISE invalid_parameter_value
              USING MESSAGE = p_name || CASE WHEN p_value IS NULL THEN ' is NULL' ELSE ' is empty' END
                              || ': give it a value';
    END IF;
    RETURN p_value;
END $$;

-- Returns a filter: a JSON object that has only the given members, or NULL (unfiltered). Raises 22023 for anything
-- else, so that a misspelled filter never selects everything.
CREATE OR REPLACE FUNCTION queend.filter_checked(p_filter jsonb, p_names text[]) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_name text;
BEGIN
    IF jsonb_typeof(p_filter) <> 'object' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'the argument must be a JSON object';
    END IF;
    v_name := (SELECT min(k) FROM jsonb_object_keys(p_filter) AS k WHERE k <> ALL (p_names));
    IF v_name IS NOT NULL THEN
        RAISE invalid_parameter_value
              USING MESSAGE = format('%s is no key: the keys are %s', left(v_name, 64), array_to_string(p_names, ', '));
    END IF;
    RETURN p_filter;
END $$;

-- Returns a filter of a function that deletes or moves (filter_checked). Also raises 22023 for a member that is null,
-- an empty text or an empty list, so that none of them can mean "all".
CREATE OR REPLACE FUNCTION queend.filter_given(p_filter jsonb, p_names text[]) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_name text := (SELECT min(e.key) FROM jsonb_each(queend.filter_checked(p_filter, p_names)) AS e
                     WHERE e.value IN ('null', '""', '[]'));
BEGIN
    IF v_name IS NOT NULL THEN
        RAISE invalid_parameter_value
              USING MESSAGE = format('%s is empty: give it a value, or leave it out', v_name);
    END IF;
    RETURN p_filter;
END $$;

-- Returns a number of a filter, p_default if the filter has none. Raises 22023 unless it is a whole number from p_low
-- to p_most.
CREATE OR REPLACE FUNCTION queend.filter_number(p_filter jsonb, p_name text, p_default int, p_low int, p_most int)
RETURNS int
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_text text := COALESCE(p_filter->>p_name, p_default::text);
BEGIN
    IF v_text ~ '^-?[0-9]{1,18}$' THEN
        IF v_text::bigint BETWEEN p_low AND p_most THEN
            RETURN v_text::int;
        END IF;
    END IF;
    RAISE invalid_parameter_value
          USING MESSAGE = format('%s must be a whole number from %s to %s', p_name, p_low, p_most);
END $$;

-- Returns whether p_name may be a misspelling of p_known: equal but for case, or one letter more, less or different, or
-- two neighbours swapped. A p_known of less than five letters is matched by case alone. queend/core/route/typos.pyx has
-- the same rule.
CREATE OR REPLACE FUNCTION queend.name_near(p_name text, p_known text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v_more CONSTANT int := length(p_name) - length(p_known);
    i      int := 1;      -- the first letter that differs
BEGIN
    IF lower(p_name) = lower(p_known) THEN
        RETURN true;
    ELSIF length(p_known) < 5 OR abs(v_more) > 1 THEN
        RETURN false;
    END IF;
    WHILE i <= length(p_name) AND substr(p_name, i, 1) = substr(p_known, i, 1) LOOP
        i := i + 1;
    END LOOP;
    RETURN CASE v_more WHEN 1 THEN substr(p_name, i + 1) = substr(p_known, i)
                       WHEN -1 THEN substr(p_name, i) = substr(p_known, i + 1)
                       ELSE substr(p_name, i + 1) = substr(p_known, i + 1)
                            OR substr(p_name, i, 2) = reverse(substr(p_known, i, 2))
                            AND substr(p_name, i + 2) = substr(p_known, i + 2) END;
END $$;

-- Refuses a JSON array in which an object has a misspelled member: one that is near to one of the given names
-- (name_near). Other unknown members are ignored, as over HTTP. Error 22023.
CREATE OR REPLACE FUNCTION queend.members_checked(p_items jsonb, p_names text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    v record;
BEGIN
    SELECT k.name, n.name AS meant, e.ord - 1 AS at INTO v
      FROM jsonb_array_elements(p_items) WITH ORDINALITY AS e (v, ord)
     CROSS JOIN LATERAL jsonb_object_keys(CASE jsonb_typeof(e.v) WHEN 'object' THEN e.v ELSE '{}' END) AS k (name)
     CROSS JOIN LATERAL (SELECT unnest(p_names) AS name WHERE k.name <> ALL (p_names) OFFSET 0) AS n
     WHERE queend.name_near(k.name, n.name)
     ORDER BY e.ord LIMIT 1;
    IF FOUND THEN
        RAISE invalid_parameter_value
              USING MESSAGE = format('%s is no key; %s is one (item %s)', left(v.name, 64), v.meant, v.at);
    END IF;
END $$;
