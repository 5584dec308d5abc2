"""What to expect: spikes, the closed form, predictions given the tokens, classes, planning, fluctuations, ridge."""
