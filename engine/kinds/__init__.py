"""What each kind of query is to the engine: its problem with the proof of its sensitivity, and what its releases say.

* :mod:`.counts`: Counts of records in a public grid
* :mod:`.directions`: Leading principal directions, of which a second moment is asked
* :mod:`.gradients`: Sums of clipped gradients, which are bounded as outer products are
* :mod:`.histograms`: Histograms of all columns
* :mod:`.marginals`: Marginal tables of counts
* :mod:`.moments`: Second moments and covariances
* :mod:`.outer`: Sums of outer products
* :mod:`.quantiles`: Quantiles of columns: how far one record moves the balances from which they follow
* :mod:`.rows`: The records themselves
* :mod:`.totals`: The number of records and the sum of each column
"""
