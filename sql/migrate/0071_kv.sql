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

-- The low 40 bits of the versions.
CREATE SEQUENCE queend.kv_versions MAXVALUE 1099511627775;

-- The high bits of the versions, and the server that they belong to. A server that took over or was restored may have
-- lost the newest versions. It has another timeline or identifier, and raises `era` before its first write.
CREATE TABLE queend.kv_era (
    era    int PRIMARY KEY,
    server text NOT NULL              -- identifier and timeline
);
INSERT INTO queend.kv_era VALUES (0, '');
