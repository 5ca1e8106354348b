"""Second moments and covariances: how far one record moves them."""
