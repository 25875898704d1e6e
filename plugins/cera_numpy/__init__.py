"""The readable reference backend, on NumPy."""
