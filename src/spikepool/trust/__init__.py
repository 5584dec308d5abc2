"""Which components to trust: diagnosis of pooled features."""
