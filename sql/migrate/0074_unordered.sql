-- Queues without order: messages that name no partition are spread over the partitions ~00, ~01, … of their queue.
ALTER TABLE queend.queues ADD COLUMN ordered boolean NOT NULL DEFAULT true,
                          ADD COLUMN spread_partitions int NOT NULL DEFAULT 64;
