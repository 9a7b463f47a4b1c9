-- raised_at: when retention raised the floor last, µs. A partition that is written and emptied again and again, and read
-- by offset, shows its activity nowhere else. Floors that exist count as raised now; the default needs no rewrite.
ALTER TABLE queend.floors
    ADD COLUMN raised_at bigint NOT NULL DEFAULT (extract(epoch FROM now()) * 1000000)::bigint;
ALTER TABLE queend.floors ALTER COLUMN raised_at SET DEFAULT 0;
