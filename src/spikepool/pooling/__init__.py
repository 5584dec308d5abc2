"""Which pooling to choose: estimators of weights."""
