"""What a database says: broken links, what robots.txt forbade, duplicates, politeness."""
