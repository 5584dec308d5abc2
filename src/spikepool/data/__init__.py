"""A user's sequences, features, labels and files, checked as they come in."""
