"""Studies: what it claims, what really holds, and labelled draws on public data."""
