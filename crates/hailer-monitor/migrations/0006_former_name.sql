-- Former names of renamed servers, whose addresses still lead to them.
CREATE TABLE former_name (
    name TEXT NOT NULL PRIMARY KEY,
    server BIGINT NOT NULL
) {clustered};
