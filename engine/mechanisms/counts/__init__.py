"""Mechanisms for counts on a grid: strategies of whole numbers.

* :mod:`.symmetric_axes`: Axes of tables that may be exchanged, so that records need not be distinguished by those
  that they agree along
* :mod:`.histogram_noise`: The mechanism for histograms of columns: Gaussian noise on what their bins and totals differ
  in
* :mod:`.histogram_sizes`: How noise is shared within histograms and among their totals, and what no Gaussian noise is
  below
* :mod:`.histogram_strategy`: Histograms of columns as a strategy of integers: what bins differ in, what totals differ
  in, and one sum of all
* :mod:`.matrix_mechanism`: The matrix mechanism
* :mod:`.range_errors`: Error of ranges along ordered axes of marginal tables
* :mod:`.range_residuals`: Residuals of marginal tables some of whose axes are ordered, so that ranges of their cells
  have little noise
* :mod:`.residual_sizes`: How noise is shared among residuals, and what no Gaussian noise is below
* :mod:`.residual_strategy`: Residuals of marginal tables as a strategy in whole numbers
* :mod:`.residuals`: The mechanism for marginal tables: Gaussian noise on their residuals
* :mod:`.strategy_search`: Search for good strategies of the matrix mechanism, with a lower bound of the error of every
  strategy beside
* :mod:`.workload_answers`: Mechanisms for workloads of counts
"""
