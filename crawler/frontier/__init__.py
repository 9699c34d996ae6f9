"""The frontier: every held host, when it may be contacted next, and why not yet.

Synchronous: nothing here awaits. The frontier is told what happened by method calls, and answers
with return values, with tickets (`tickets`) and with commands for the scheduler (`commands`).
"""
