-- The history. The same text is used for SQLite and PostgreSQL: {clustered} becomes WITHOUT ROWID in SQLite, which stores a
-- table in the order of its primary key. Times are in Unix milliseconds, whole numbers are BIGINT, flags are 0 or 1.

-- Settings that the process stores across restarts.
CREATE TABLE setting (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) {clustered};

-- Monitored servers, and removed ones until their samples are deleted. Ids are never used again.
CREATE TABLE server (
    id BIGINT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    target TEXT NOT NULL,
    of_group TEXT NOT NULL,
    labels TEXT NOT NULL,
    every BIGINT,
    origin TEXT NOT NULL,
    removed BIGINT
) {clustered};

-- Results of polls, ordered by time: new rows go to the end, and old rows are deleted from the start.
CREATE TABLE sample (
    at BIGINT NOT NULL,
    server BIGINT NOT NULL,
    answered BIGINT NOT NULL,
    players BIGINT,
    slots BIGINT,
    latency BIGINT,
    sent BIGINT NOT NULL,
    resent BIGINT NOT NULL,
    PRIMARY KEY (at, server)
) {clustered};

-- Sums of samples in buckets of 5 minutes (level 1), an hour (2) or a day (3). Server 0 is the sum of all servers. The order by
-- time lets a writer append the rows of 100,000 servers to a few pages. The keys of one server are computed, not searched.
CREATE TABLE rollup (
    level BIGINT NOT NULL,
    bucket BIGINT NOT NULL,
    server BIGINT NOT NULL,
    asked BIGINT NOT NULL,
    answered BIGINT NOT NULL,
    told BIGINT NOT NULL,
    players BIGINT,
    players_max BIGINT,
    slots BIGINT,
    timed BIGINT NOT NULL,
    latency BIGINT,
    latency_max BIGINT,
    sent BIGINT NOT NULL,
    resent BIGINT NOT NULL,
    PRIMARY KEY (level, bucket, server)
) {clustered};

-- Progress of the roll-up of each level. Buckets before `done` are final. `seen` is the `done` of the level below at the time of
-- the last roll-up.
CREATE TABLE progress (
    level BIGINT NOT NULL PRIMARY KEY,
    done BIGINT NOT NULL,
    seen BIGINT NOT NULL
) {clustered};
INSERT INTO progress (level, done, seen) VALUES (1, 0, 0), (2, 0, 0), (3, 0, 0);

-- Final buckets that received late samples and must be summed again.
CREATE TABLE late (
    level BIGINT NOT NULL,
    bucket BIGINT NOT NULL,
    PRIMARY KEY (level, bucket)
) {clustered};

CREATE TABLE event (
    server BIGINT NOT NULL,
    at BIGINT NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (server, at, kind)
) {clustered};
CREATE INDEX event_at ON event (at, server, kind);

-- Current state of each server. It stays when the events are deleted.
CREATE TABLE state (
    server BIGINT NOT NULL PRIMARY KEY,
    state TEXT NOT NULL,
    since BIGINT NOT NULL
) {clustered};

CREATE TABLE session (
    server BIGINT NOT NULL,
    first BIGINT NOT NULL,
    player TEXT NOT NULL,
    last BIGINT NOT NULL,
    PRIMARY KEY (server, first, player)
) {clustered};
