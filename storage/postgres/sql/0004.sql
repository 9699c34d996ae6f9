-- From version 3 to 4: what pages declare about their use.

ALTER TABLE plans ADD COLUMN declared text COLLATE "C";

UPDATE crawl SET version = 4;
