-- What was. One text for SQLite and PostgreSQL: where a table is its own index, as one with WITHOUT ROWID is in SQLite, it
-- ends in {clustered}. Times are milliseconds since 1970, whole numbers are BIGINT, flags 0 and 1.

-- Small things that must outlive the process.
CREATE TABLE setting (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) {clustered};

-- Who is watched, and who was: numbers are never given twice, and what was seen of a server outlives its watching.
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

-- A log ordered by time: written at its end, deleted from its front, rolled up from its last minutes.
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

-- Sums of buckets of five minutes (level 1), an hour (2), a day (3); server 0 is all of them. Ordered by time as well: a
-- hundred thousand servers are then written side by side, not each into a page of its own; and since buckets are a grid, those
-- of one server are found by their keys.
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

-- How far each level is rolled up: buckets before `done` are final. `seen`: the `done` of the level below, when this was last
-- looked at.
CREATE TABLE progress (
    level BIGINT NOT NULL PRIMARY KEY,
    done BIGINT NOT NULL,
    seen BIGINT NOT NULL
) {clustered};
INSERT INTO progress (level, done, seen) VALUES (1, 0, 0), (2, 0, 0), (3, 0, 0);

-- Final buckets into which something came late.
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

-- The last word on each server, which outlives its events.
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
