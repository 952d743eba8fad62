-- Compressed rows of 16 servers: samples of an hour (level 0), roll-ups of 2 hours (1), 2 days (2) or 64 days (3). A cohort
-- is the number of a server divided by 16. Negative numbers are sums of 2,048 servers.
CREATE TABLE block (
    level BIGINT NOT NULL,
    start BIGINT NOT NULL,
    cohort BIGINT NOT NULL,
    body {bytes} NOT NULL,
    PRIMARY KEY (level, start, cohort)
);

-- Samples that no block has yet, compressed: those of one write, of 5 minutes and 2,048 servers.
CREATE TABLE recent (
    bucket BIGINT NOT NULL,
    shelf BIGINT NOT NULL,
    body {bytes} NOT NULL
);
CREATE INDEX recent_unit ON recent (bucket, shelf);

-- Times of the first and the last sample in 5 minutes.
CREATE TABLE edge (
    bucket BIGINT NOT NULL PRIMARY KEY,
    first BIGINT NOT NULL,
    last BIGINT NOT NULL
) {clustered};

-- Rows before `cut` are expired, even if a block has them.
ALTER TABLE progress ADD COLUMN cut BIGINT;
INSERT INTO progress (level, done, seen) VALUES (0, 0, 0);
