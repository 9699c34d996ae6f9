"""Who may contact which host now, why the others wait, and what robots.txt lets through."""
