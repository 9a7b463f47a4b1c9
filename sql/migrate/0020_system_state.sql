-- What operators switch for all daemons at once: queend/service/maintenance.py.
CREATE TABLE queend.system_state (
    key        text PRIMARY KEY,
    value      jsonb NOT NULL,
    changed_at bigint NOT NULL      -- µs
);
