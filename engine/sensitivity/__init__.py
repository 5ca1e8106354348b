"""Sensitivity: how far one record can move the answer, along each spread of noise that a mechanism may choose.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.box_moments`: What replacing one record changes in a second moment of records in a box, exact up to sixteen
  features
* :mod:`.box_products`: How far products of two coordinates can differ between two records in boxes: a bound of each
  entry, and of all
* :mod:`.box_with_ball`: A box within a ball, ``|d_i| <= c_i`` and ``|d|_2 <= C``
* :mod:`.covariance_bound`: Least total variance of a covariance's products for any Gaussian noise that knows count and
  sums no worse than given
* :mod:`.diagonal_sizes`: Sensitivity of second moments and covariances in a box of uneven bounds, with noise of its own
  on the diagonal
* :mod:`.moment_diagonal`: Sensitivity of second moments in a box where noise on the diagonal has a size of its own,
  exact
* :mod:`.problems`: What is asked of the records, as a mechanism sees it
* :mod:`.reach`: How far a record, and the difference of two records, can reach from the origin within a body, over a
  spread
* :mod:`.root_bounds`: Distributions over what one record changes, which bound all Gaussian noise from below; see
  :mod:`.gaussian_bound`
* :mod:`.rotated_box`: A box seen along dense directions
* :mod:`.rotation`: Noise along dense directions
* :mod:`.second_moment`: Sensitivity of the second moment, attained or an upper bound, over each body and both
  neighbouring relations
* :mod:`.shaped_bounds`: Distributions over changes of records of one sign, and of records in a box within a ball
* :mod:`.small_cases`: Small problems with their worst neighbours, which every kind of query states in its file
  ``worst_neighbours.py``
* :mod:`.spread`: The relative size of noise by row and column, the size of the exact integers, and what both make of a
  sensitivity
* :mod:`.strategies`: A lower bound of what replacing one record changes in the answers of a strategy over a table of
  counts
"""
