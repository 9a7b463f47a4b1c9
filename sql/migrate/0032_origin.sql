-- Where a cursor began: what a group has consumed is counted from there. A seek moves it along, so that the count stays.
-- NULL: with the first record of its partition; of cursors that were there before it is not known, and taken for that.
ALTER TABLE queend.cursors ADD COLUMN origin bigint;
