-- What a record carries besides its payload; all NULL where it carries nothing. i is the 0-based place in the row.
-- Format 1: empty when no record needs one, else one byte 0x10, then for each record that has extras, in order: varint
-- place in the row, one byte of flags, and per flag from the lowest: 1 trace id (16 bytes), and each with a varint length
-- before it 2 producer's subject (UTF-8), 4 the transaction id as text, where it is not the record id itself, 8 when it may
-- be delivered (8 bytes, big-endian, µs), 16 id of the key its payload is sealed with, 32 headers (a JSON object). Flags that
-- are not known are passed over.
CREATE OR REPLACE FUNCTION queend.record_meta(p_meta bytea, p_i int, OUT trace_id uuid, OUT producer_sub text, OUT transaction_id text, OUT due bigint, OUT seal text, OUT headers text)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    one record;
BEGIN
    SELECT r.piece INTO one FROM queend.meta_records(p_meta) AS r WHERE r.ord = p_i;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT m.trace_id, m.producer_sub, m.transaction_id, m.due, m.seal, m.headers INTO trace_id, producer_sub, transaction_id, due, seal, headers
      FROM queend.meta_piece(one.piece) AS m;
END $$;
