-- Migration 4. Less to write for every link: shorter keys of what is known, and indexes of hosts and
-- origins with work that move when there comes to be some or none, and not with every count.

CREATE TABLE secret (  -- one row; what URLs are known by is keyed with it
  id INTEGER PRIMARY KEY CHECK (id = 1),
  bytes BLOB NOT NULL
) STRICT;

INSERT INTO secret VALUES (1, randomblob(16));

-- Keyed by origin, so that the links of one host meet the same few pages of the tree.
CREATE TABLE smaller_known (
  origin INTEGER NOT NULL,
  fingerprint INTEGER NOT NULL,         -- 64 bits, see storage/sqlite/fingerprint.py
  id INTEGER NOT NULL,                  -- of the row in urls; negative while its state is 4
  depth INTEGER NOT NULL,               -- never less than in urls: what is deeper changes nothing
  PRIMARY KEY (origin, fingerprint)
) STRICT, WITHOUT ROWID;

INSERT INTO smaller_known
SELECT k.origin, fingerprint((SELECT bytes FROM secret), o.name || u.path), k.id, k.depth
FROM known AS k CROSS JOIN urls AS u ON u.id = abs(k.id) CROSS JOIN origins AS o ON o.id = k.origin;

DROP TABLE known;
ALTER TABLE smaller_known RENAME TO known;

-- An index whose condition names a counter is written anew whenever that is counted. So what an
-- index asks stands in a column of its own, which a trigger keeps.
DROP INDEX slots_claimable;
DROP INDEX origins_with_work;
DROP INDEX origins_robots_due;

-- pending: something is queued; governs: something is queued, or was judged by its robots.txt.
ALTER TABLE slots ADD COLUMN pending INTEGER NOT NULL DEFAULT 0;
ALTER TABLE origins ADD COLUMN pending INTEGER NOT NULL DEFAULT 0;
ALTER TABLE origins ADD COLUMN governs INTEGER NOT NULL DEFAULT 0;

UPDATE slots SET pending = queued > 0;
UPDATE origins SET pending = queued > 0, governs = queued + judged + ungoverned > 0;

CREATE INDEX slots_claimable ON slots (ready_at, served)
  WHERE pending = 1 AND lease IS NULL AND paused = 0;
CREATE INDEX origins_with_work ON origins (slot) WHERE pending = 1;
CREATE INDEX origins_robots_due ON origins (robots_at) WHERE robots_at IS NOT NULL AND governs = 1;

CREATE TRIGGER slots_pending AFTER UPDATE OF queued ON slots
WHEN new.pending <> (new.queued > 0)
BEGIN
  UPDATE slots SET pending = new.queued > 0 WHERE id = new.id;
END;

CREATE TRIGGER origins_pending AFTER UPDATE OF queued ON origins
WHEN new.pending <> (new.queued > 0)
BEGIN
  UPDATE origins SET pending = new.queued > 0 WHERE id = new.id;
END;

CREATE TRIGGER origins_governs AFTER UPDATE OF queued, judged, ungoverned ON origins
WHEN new.governs <> (new.queued + new.judged + new.ungoverned > 0)
BEGIN
  UPDATE origins SET governs = new.queued + new.judged + new.ungoverned > 0 WHERE id = new.id;
END;
