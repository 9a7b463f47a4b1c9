-- Keys and their values. A row's version is a number that rises with every write of the database (queend.kv_version).
-- Only `ns` and `key` are indexed, so a renewed key is a HOT update.
CREATE TABLE queend.kv (
    version    bigint NOT NULL,
    expires_at bigint NOT NULL,      -- µs; the largest number: never
    updated_at bigint NOT NULL,      -- µs
    ns         text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    value      text NOT NULL,        -- JSON, as its client sent it
    PRIMARY KEY (ns, key)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

-- A version is a number of this sequence, plus 2^33 for each era. All versions stay below 2^53.
CREATE SEQUENCE queend.kv_versions MAXVALUE 4503599627370495;

-- The era, and the server that it belongs to. A server that took over or was restored may have lost the newest
-- versions, at most 2^33. It has another timeline or identifier, and raises `era` before its first write.
CREATE TABLE queend.kv_era (
    era    int PRIMARY KEY,
    server text NOT NULL              -- identifier and timeline
);
INSERT INTO queend.kv_era VALUES (0, '');
