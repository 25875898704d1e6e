"""A suffix automaton over the session: what followed the longest repeated suffix."""
