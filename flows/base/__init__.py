"""What every room of the flows stands on: which code this is, and where code lines of failures are kept."""
