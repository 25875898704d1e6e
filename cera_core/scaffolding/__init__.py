"""Writes the beginning of a plugin: a small distribution that works, with tests, a README and a licence."""
