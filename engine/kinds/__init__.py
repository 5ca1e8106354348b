"""What each kind of query is to the engine: its problem with the proof of its sensitivity, and what its releases say.

* :mod:`.counts`: Counts of records in a public grid
* :mod:`.histograms`: Histograms of all columns
* :mod:`.marginals`: Marginal tables of counts
* :mod:`.totals`: The number of records and the sum of each column
"""
