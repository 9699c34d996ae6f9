-- From version 14 to 15: what pages declare about their use.

ALTER TABLE plans ADD COLUMN declared TEXT;
