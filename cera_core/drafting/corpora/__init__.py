"""Corpora: many documents in one file, tokenised and ordered, so that what a text quotes is found at once."""
