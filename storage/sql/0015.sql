-- From version 14 to 15: what pages declare about their use.

ALTER TABLE plans ADD COLUMN declared TEXT;

-- What is stored of robots.txt for each registrable domain.

ALTER TABLE bodies ADD COLUMN domain TEXT;
ALTER TABLE bodies ADD COLUMN packed_bytes INTEGER;
CREATE INDEX bodies_by_domain ON bodies (domain, packed_bytes) WHERE domain IS NOT NULL;
