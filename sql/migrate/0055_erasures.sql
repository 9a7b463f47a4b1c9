-- Records whose payload is still to be overwritten where it is stored (sql/function/erase.sql): a row goes when that is
-- done. Records of compressed rows, which SQL cannot unpack, wait here for a daemon.
CREATE TABLE queend.erasures (
    record_offset bigint NOT NULL,
    partition_id  int NOT NULL,
    PRIMARY KEY (partition_id, record_offset)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 1);
-- Copies of rows that retention has removed from the log: only what is still a dead letter stays in them.
INSERT INTO queend.erasures (partition_id, record_offset)
SELECT b.partition_id, o.at
  FROM queend.dead_bodies b
  JOIN queend.floors f ON f.partition_id = b.partition_id AND f.floor > b.base
 CROSS JOIN LATERAL generate_series(b.base, b.base + b.n - 1) AS o (at)
 WHERE NOT EXISTS (SELECT FROM queend.dead_letters d
                    WHERE d.partition_id = b.partition_id AND d.record_offset = o.at)
ON CONFLICT DO NOTHING;
