"""Ridge regression: penalties, out-of-fold predictions in closed form, folds."""
