-- From version 12 to 13: data that is added with URLs.

CREATE TABLE data (  -- that was added with a URL
  id INTEGER PRIMARY KEY,
  json TEXT NOT NULL
) STRICT;
