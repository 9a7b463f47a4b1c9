-- Extends leases: [{"leaseId", "extendSeconds": 60, "index": its place}, …]; all partitions under a lease, and never shorter. Result: [{index, leaseId,
-- success, error: Lease not found or Lease already expired, expiresAt: the earliest}, …].
CREATE OR REPLACE FUNCTION queen.renew_lease_v2(items jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    RETURN (
    WITH item AS MATERIALIZED (
        SELECT e.ord::int AS ord, e.v, COALESCE(queend.lease_uuid(e.v->>'leaseId'), '00000000-0000-0000-0000-000000000000') AS lease,
               LEAST(GREATEST(COALESCE((e.v->>'extendSeconds')::int, 60), 0), 31536000) AS seconds
          FROM jsonb_array_elements(items) WITH ORDINALITY AS e (v, ord)),
    done AS MATERIALIZED (
        SELECT r.* FROM queend.renew(ARRAY(SELECT i.lease FROM item i ORDER BY i.ord), ARRAY(SELECT i.seconds FROM item i ORDER BY i.ord), '{}', '{}', '{}') AS r)
    SELECT COALESCE(jsonb_agg(jsonb_build_object(
               'index', COALESCE(i.v->'index', to_jsonb(i.ord - 1)), 'leaseId', i.v->'leaseId', 'success', d.status = 0,
               'error', CASE d.status WHEN 1 THEN 'Lease not found' WHEN 2 THEN 'Lease already expired' END,
               'expiresAt', CASE WHEN d.status = 0 THEN queend.iso(d.expires_at) END) ORDER BY i.ord), '[]')
      FROM item i JOIN done d ON d.ord = i.ord - 1);
END $$;
