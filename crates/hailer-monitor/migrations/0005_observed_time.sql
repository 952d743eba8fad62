-- Time that a sample stands for, and the time of a bucket with samples and with replies, in milliseconds. NULL: written by an
-- earlier version.
ALTER TABLE sample ADD COLUMN length BIGINT;
ALTER TABLE rollup ADD COLUMN observed BIGINT;
ALTER TABLE rollup ADD COLUMN up BIGINT;
