"""What is: correlations, signs, frequencies, weights, the data of a model, and draws of tables and tokens."""
