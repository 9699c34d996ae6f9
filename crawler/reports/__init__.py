"""Reports on a database (broken links, robots.txt, duplicates, politeness), and exports of it."""
