"""Releases: a published release with its ledger entries, or nothing and no charge."""
