"""The frontier: every leased host, when it may be contacted next, and why not yet.

Synchronous: nothing here awaits. Events arrive as method calls; results are return values, tickets
(`tickets`) and commands for the scheduler (`commands`).
"""
