"""What more labelled data will bring: the learning curve of ridge, forecast from a pilot."""
