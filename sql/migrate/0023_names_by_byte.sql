-- Names compare by byte (COLLATE "C"), whatever the collation of the database is: an index of names in the order of a locale is
-- corrupt as soon as an upgrade of the system's library changes that order.
-- No table is rewritten; the indexes of names are. Of 10^6 partitions that takes about a second, during which nobody reads or writes
-- partitions. The locks come first, all of them, so that a try that does not get one keeps nobody waiting for long (service/migrate).
LOCK TABLE queend.queues, queend.partitions, queend.consumer_groups, queend.dead_letters, queend.traces, queend.trace_names, queend.outbox,
    queend.stream_queries, queend.system_state, queend.metric_queues, queend.metric_workers IN ACCESS EXCLUSIVE MODE;

-- Views that show these columns have to go meanwhile. They come back as they were: text, options, owner, rights, triggers, rules, comment.
DO $$
DECLARE
    found jsonb := '[]';
    one record;
    it jsonb;
    command text;
BEGIN
    FOR one IN
        WITH RECURSIVE shows AS (
            SELECT r.ev_class AS view, 1 AS depth
              FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
             WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND r.ev_class <> d.refobjid
               AND d.refobjid IN ('queend.queues'::regclass, 'queend.partitions'::regclass, 'queend.consumer_groups'::regclass,
                   'queend.dead_letters'::regclass, 'queend.traces'::regclass, 'queend.trace_names'::regclass, 'queend.outbox'::regclass,
                   'queend.stream_queries'::regclass, 'queend.system_state'::regclass, 'queend.metric_queues'::regclass,
                   'queend.metric_workers'::regclass)
            UNION
            SELECT r.ev_class, s.depth + 1
              FROM shows s JOIN pg_depend d ON d.refobjid = s.view AND d.refclassid = 'pg_class'::regclass AND d.classid = 'pg_rewrite'::regclass
              JOIN pg_rewrite r ON r.oid = d.objid AND r.ev_class <> s.view
        )
        SELECT c.oid::regclass AS name, c.relkind, c.reloptions, c.relacl, c.oid, pg_get_userbyid(c.relowner) AS owner, max(s.depth) AS depth
          FROM shows s JOIN pg_class c ON c.oid = s.view GROUP BY c.oid ORDER BY max(s.depth), c.oid
    LOOP
        IF one.relkind <> 'v' OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = one.oid AND attacl IS NOT NULL) THEN
            RAISE EXCEPTION '% shows names of queend, and is more than a view (rows of its own, rights to single columns)', one.name
                USING HINT = 'Drop it, let queend migrate, and create it again.';
        END IF;
        found := found || jsonb_build_object('name', one.name::text, 'commands', to_jsonb(ARRAY[
            format('CREATE VIEW %s %s AS %s', one.name, CASE WHEN one.reloptions IS NOT NULL THEN 'WITH (' || array_to_string(one.reloptions, ', ') || ')' ELSE '' END,
                   pg_get_viewdef(one.oid))]
            || CASE WHEN one.owner = current_user THEN '{}' ELSE ARRAY[format('ALTER VIEW %s OWNER TO %I', one.name, one.owner)] END
            || ARRAY(SELECT format('GRANT %s ON %s TO %s%s', a.privilege_type, one.name, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
                                   CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
                       FROM aclexplode(one.relacl) a WHERE a.grantee <> (SELECT relowner FROM pg_class WHERE oid = one.oid))
            || ARRAY(SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = one.oid AND NOT tgisinternal)
            || ARRAY(SELECT pg_get_ruledef(oid) FROM pg_rewrite WHERE ev_class = one.oid AND rulename <> '_RETURN')
            || ARRAY(SELECT format('COMMENT ON VIEW %s IS %L', one.name, obj_description(one.oid, 'pg_class')) WHERE obj_description(one.oid, 'pg_class') IS NOT NULL)));
    END LOOP;
    FOR it IN SELECT v.value FROM jsonb_array_elements(found) WITH ORDINALITY v ORDER BY v.ordinality DESC LOOP
        EXECUTE 'DROP VIEW ' || (it ->> 'name');
    END LOOP;

    ALTER TABLE queend.queues ALTER name TYPE text COLLATE "C", ALTER namespace TYPE text COLLATE "C", ALTER task TYPE text COLLATE "C";
    ALTER TABLE queend.partitions ALTER name TYPE text COLLATE "C";
    ALTER TABLE queend.consumer_groups ALTER name TYPE text COLLATE "C";
    ALTER TABLE queend.dead_letters ALTER group_name TYPE text COLLATE "C", ALTER transaction_id TYPE text COLLATE "C";
    ALTER TABLE queend.traces ALTER transaction_id TYPE text COLLATE "C", ALTER group_name TYPE text COLLATE "C",
        ALTER event_type TYPE text COLLATE "C", ALTER worker_id TYPE text COLLATE "C", ALTER names TYPE text[] COLLATE "C";
    ALTER TABLE queend.trace_names ALTER name TYPE text COLLATE "C";
    ALTER TABLE queend.outbox ALTER queue TYPE text COLLATE "C", ALTER partition TYPE text COLLATE "C", ALTER transaction_id TYPE text COLLATE "C";
    ALTER TABLE queend.stream_queries ALTER name TYPE text COLLATE "C", ALTER source_queue TYPE text COLLATE "C", ALTER sink_queue TYPE text COLLATE "C";
    ALTER TABLE queend.system_state ALTER key TYPE text COLLATE "C";
    ALTER TABLE queend.metric_queues ALTER hostname TYPE text COLLATE "C";
    ALTER TABLE queend.metric_workers ALTER hostname TYPE text COLLATE "C";

    FOR it IN SELECT v.value FROM jsonb_array_elements(found) WITH ORDINALITY v ORDER BY v.ordinality LOOP
        FOR command IN SELECT c.value FROM jsonb_array_elements_text(it -> 'commands') WITH ORDINALITY c ORDER BY c.ordinality LOOP
            EXECUTE command;
        END LOOP;
    END LOOP;
END $$;
