"""What happens: draws of the model and the spectra of their pooled covariances."""
