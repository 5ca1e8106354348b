"""Plan: every number that decides the release: sensitivity, noise, charge, error, cost; and a digest of it."""
