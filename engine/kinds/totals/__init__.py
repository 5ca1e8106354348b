"""The number of records and the sum of each column: how far one record moves them, and means with their errors."""
