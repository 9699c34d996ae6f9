-- From version 3 to 4: what pages declare about their use.

ALTER TABLE plans ADD COLUMN declared text COLLATE "C";

-- What is stored of robots.txt for each registrable domain.

ALTER TABLE bodies ADD COLUMN domain text COLLATE "C";
ALTER TABLE bodies ADD COLUMN packed_bytes bigint;
CREATE INDEX bodies_by_domain ON bodies (domain, packed_bytes) WHERE domain IS NOT NULL;

-- What holds a worker.
ALTER TABLE sessions ADD COLUMN held text COLLATE "C" NOT NULL DEFAULT '[]';

UPDATE crawl SET version = 4;
