"""The heart: a draft is verified in one forward, and what the model agrees with is kept."""
