-- Drops functions of earlier versions that are no longer called, whatever their signature, when the others are
-- installed. Functions that daemons of a still served edition call by name stay, in sql/former.
DO $$
DECLARE
    v_gone regprocedure;
BEGIN
    FOR v_gone IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'queend'::regnamespace AND p.proname = ANY ('{
        compact, compact_find, compact_rows, given_from, ids_in_order, message_status, partition_done, pop_sm_fetch,
        pop_sm_lease, pop_sm_release, pop_sm_resolve, push_slow, queue_id, record_payload, traces_delete,
        transaction_check, transaction_named, uuid_id}') LOOP
        EXECUTE format('DROP FUNCTION %s', v_gone);
    END LOOP;
END $$;
