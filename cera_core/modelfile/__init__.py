"""What comes out of a GGUF file."""
