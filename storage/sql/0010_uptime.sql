-- The start of the machine, and for how long it had been up, when last_at was told.
ALTER TABLE crawl ADD COLUMN boot TEXT;
ALTER TABLE crawl ADD COLUMN uptime_s REAL;
