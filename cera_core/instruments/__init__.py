"""Instruments: what drafting brings on a user's own texts and machine, measured or replayed."""
