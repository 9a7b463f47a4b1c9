-- What a message of the outbox has besides its payload: headers (as in the extras of a record), and when it may be
-- delivered (µs). Rows without them take no byte more.
ALTER TABLE queend.outbox ADD COLUMN headers text, ADD COLUMN due bigint;
