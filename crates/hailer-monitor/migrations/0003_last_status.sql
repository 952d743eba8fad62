-- Last status of each server, as JSON, so that pages show it after a restart.
CREATE TABLE last_status (
    server BIGINT NOT NULL PRIMARY KEY,
    status TEXT NOT NULL
);
