-- From version 1 to 2: data that is added with URLs.

CREATE TABLE data (
  id bigint PRIMARY KEY,
  json text COLLATE "C" NOT NULL
) WITH (fillfactor = 90);

UPDATE crawl SET version = 2;
