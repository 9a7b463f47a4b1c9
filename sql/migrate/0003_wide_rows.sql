-- Bodies of a kilobyte and more come compressed. A row of up to half a page stays in the table: two of them fill a page,
-- and neither push nor pop touches the TOAST table and its index for them. Where the server has lz4, what is still plain
-- goes through it, and trying it on what is compressed costs nothing that could be measured; pglz is so dear (20 us per
-- kilobyte) that a server without lz4 is told not to try.
ALTER TABLE queend.log SET (toast_tuple_target = 4080);
DO $$
BEGIN
    IF (SELECT 'lz4' <> ALL (enumvals) FROM pg_settings WHERE name = 'default_toast_compression') THEN
        ALTER TABLE queend.log ALTER COLUMN body SET STORAGE EXTERNAL, ALTER COLUMN ids SET STORAGE EXTERNAL;
    END IF;
END $$;
