-- Timers: messages that are to be pushed later. A row is there until its message is stored, or it is cancelled.
CREATE TABLE queend.timers (
    number         bigint NOT NULL,      -- of this schedule: a replaced timer has another
    due            bigint NOT NULL,      -- µs
    next_at        bigint NOT NULL,      -- µs: when it is to be fired; later than due after a failed attempt
    created_at     bigint NOT NULL,      -- µs
    updated_at     bigint NOT NULL,      -- µs
    attempts       int NOT NULL,         -- failed ones
    message_id     uuid NOT NULL,        -- of this schedule, of version 4
    queue          text COLLATE "C" NOT NULL,
    timer_key      text COLLATE "C" NOT NULL,
    partition      text NOT NULL,
    transaction_id text NOT NULL,
    payload        text NOT NULL,        -- JSON; of an encrypted queue: sealed
    seal           text,                 -- id of the key that the payload is sealed with
    producer_sub   text,                 -- subject of who scheduled it
    last_error     text,                 -- of the last failed attempt
    PRIMARY KEY (queue, timer_key)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05);

-- Timers are fired in this order: those of one moment in the order in which they were scheduled.
CREATE INDEX timers_next ON queend.timers (next_at, number);

CREATE SEQUENCE queend.timer_numbers;
