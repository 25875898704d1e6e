"""Phrases: the rest of a known phrase whose beginning stands at the end of the history."""
