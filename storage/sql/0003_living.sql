-- Migration 3. A crawl that lives: its pause, and when each host's last contact ended, so that a rest
-- that is made longer or shorter counts from there.

ALTER TABLE crawl ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;
ALTER TABLE slots ADD COLUMN ended_at REAL;

UPDATE slots SET ended_at = (
  SELECT max(c.end_at) + (SELECT shift_s FROM crawl) FROM contacts AS c WHERE c.slot = slots.id
);
