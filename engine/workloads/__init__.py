"""Workloads: the strategy's coefficients as integers, and the expected error of the answers that are reconstructed from
it.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.bin_places`: Where histograms of columns have their bins: columns differ in their number, rows of the answer do
  not
* :mod:`.expected_error`: Error of answering one workload of counts from the noisy answers of another
* :mod:`.kronecker`: What errors need of a workload along one axis, without its matrix or its Gram matrix
* :mod:`.marginal_tables`: Marginal tables of counts over chosen axes, and the residuals of which all of them are made
* :mod:`.ordered_axes`: Axes of tables whose cells have an order, and what is measured along them so that ranges of
  cells are known well
* :mod:`.range_variances`: Mean variance of ranges along ordered axes of marginal tables that are made of residuals
* :mod:`.strategy`: What a strategy is
* :mod:`.workload`: Linear workloads over counts, as structured operators
"""
