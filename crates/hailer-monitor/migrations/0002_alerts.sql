-- Notifications of alerts, one row per receiver. State 0 is waiting, 1 delivered, 2 failed.
CREATE TABLE alert_message (
    id TEXT NOT NULL PRIMARY KEY,
    receiver TEXT NOT NULL,
    number BIGINT NOT NULL,
    made BIGINT NOT NULL,
    due BIGINT NOT NULL,
    held BIGINT NOT NULL,
    state BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    error TEXT NOT NULL,
    firing TEXT NOT NULL
);

CREATE INDEX alert_message_by_number ON alert_message (number);
CREATE INDEX alert_message_waiting ON alert_message (number) WHERE state = 0;

-- Open incidents that receivers were notified of. Server 0 is the monitor itself.
CREATE TABLE alert_open (
    rule TEXT NOT NULL,
    server BIGINT NOT NULL,
    since BIGINT NOT NULL,
    told BIGINT NOT NULL,
    PRIMARY KEY (rule, server)
) {clustered};
