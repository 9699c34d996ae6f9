"""What is known of URLs and hosts, in words."""
