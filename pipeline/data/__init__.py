"""Data: records that are opened, checked and identified; releases that are read again."""
