"""A user's sequences, features, labels and files, read safely and in blocks."""
