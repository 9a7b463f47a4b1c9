-- Declared options of ephemeral queues. Their messages are in the memory of a daemon only.
CREATE TABLE queend.ephemeral (
    queue       text COLLATE "C" PRIMARY KEY,
    options     jsonb NOT NULL,       -- options that were given; the others have their defaults
    declared_at bigint NOT NULL       -- µs
);
