"""What releases cost together: events, their privacy profiles, certified composition, and one Gaussian above each."""
