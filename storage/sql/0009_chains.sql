CREATE TABLE chains (  -- blocked or freed URLs; what redirects to them is to be treated likewise
  root INTEGER PRIMARY KEY,
  after INTEGER NOT NULL                -- of those redirects: up to this id it has been
) STRICT;
