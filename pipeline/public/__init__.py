"""Public: files that later configs may name: shapes and bounds of records, directions of noise, weights."""
