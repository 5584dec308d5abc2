"""Texts in: encoders that turn texts into token embeddings, and files that hold texts with their labels."""
