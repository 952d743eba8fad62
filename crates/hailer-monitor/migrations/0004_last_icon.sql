-- Last icon of each server: a digest that pages name it by, and the PNG file as a data: URI.
CREATE TABLE last_icon (
    server BIGINT NOT NULL PRIMARY KEY,
    digest TEXT NOT NULL,
    png TEXT NOT NULL
);
CREATE INDEX last_icon_digest ON last_icon (digest);
