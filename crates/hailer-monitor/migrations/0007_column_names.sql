-- Columns get the names that the code uses. Intervals and lengths of time are in milliseconds.
ALTER TABLE server RENAME COLUMN of_group TO "group";
ALTER TABLE server RENAME COLUMN every TO interval_ms;
ALTER TABLE server RENAME COLUMN removed TO removed_at;
ALTER TABLE sample RENAME COLUMN answered TO is_answered;
ALTER TABLE sample RENAME COLUMN slots TO max;
ALTER TABLE sample RENAME COLUMN length TO observed_ms;
ALTER TABLE rollup RENAME COLUMN asked TO polls;
ALTER TABLE rollup RENAME COLUMN told TO with_players;
ALTER TABLE rollup RENAME COLUMN slots TO max;
ALTER TABLE rollup RENAME COLUMN timed TO with_latency;
ALTER TABLE rollup RENAME COLUMN observed TO observed_ms;
ALTER TABLE rollup RENAME COLUMN up TO up_ms;
ALTER TABLE alert_message RENAME COLUMN held TO is_held;
ALTER TABLE alert_message RENAME COLUMN firing TO notification;
ALTER TABLE alert_open RENAME COLUMN told TO notified_at;
