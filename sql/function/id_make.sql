-- A new UUID of version 7: ms since the Unix epoch, then 12 bits of the millisecond, then chance.
CREATE OR REPLACE FUNCTION queend.id_make() RETURNS uuid
LANGUAGE sql VOLATILE AS $$
    SELECT encode(substr(int8send(t.us / 1000), 3, 6) || substr(int8send(28672 | t.us % 1000 * 4096 / 1000), 7, 2) || substr(uuid_send(gen_random_uuid()), 9, 8), 'hex')::uuid
      FROM (SELECT queend.now_us() AS us) AS t
$$;
