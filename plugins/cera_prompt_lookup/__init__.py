"""Prompt lookup: what followed the last few tokens the last time they occurred."""
