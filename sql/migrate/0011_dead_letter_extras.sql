-- What a dead letter's payload is sealed with, and the headers it came with.
ALTER TABLE queend.dead_letters ADD COLUMN seal text, ADD COLUMN headers text;
