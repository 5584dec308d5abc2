"""Tools without knowledge of the subject: checks, memory, threads, progress, roots, quadrature."""
