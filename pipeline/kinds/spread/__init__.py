"""What a night asks before its covariance or totals, where it learns the shape of its noise: no query of its own."""
