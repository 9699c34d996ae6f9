"""Notifications of changes of health, sent to the webhook of the config."""
