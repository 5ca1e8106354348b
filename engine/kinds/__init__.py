"""What each kind of query is to the engine: its problem with the proof of its sensitivity, and what its releases say.

* :mod:`.totals`: The number of records and the sum of each column
"""
