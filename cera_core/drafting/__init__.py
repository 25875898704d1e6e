"""Drafters that need no plugin."""
