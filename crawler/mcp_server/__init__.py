"""`courtly mcp`: one polite session as the tools of a language model (Model Context Protocol)."""
