"""One bounded request: what is asked, how it is sent, to which address, and what comes of it."""
