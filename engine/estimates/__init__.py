"""Estimates: estimates in raw units, each with its error; bands that hold for many entries at once; post-processed
matrices.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.bands`: How far noise alone takes entries from the truth
* :mod:`.blocks`: Estimates of a large answer, block by block
* :mod:`.cells`: Counts of cells and answers of a workload from released integers, and their error before data is read
* :mod:`.chosen_bounds`: Bounds of columns from noisy histograms, and how many records they leave out
* :mod:`.class_rules`: Linear classifiers from a released second moment of features and classes
* :mod:`.combined_moments`: Second moments of several nights as one, each entry by the nights' noise and by how far
  records may have drifted
* :mod:`.components`: Principal components from a released second moment, and how noise moves them
* :mod:`.consistent_tables`: Tables without negative counts, and the error of linear functions of tables
* :mod:`.correlations`: Correlations and partial correlations from a released second moment, and how noise moves them
* :mod:`.descent`: Weights that follow from released sums of gradients: gradient descent, with momentum, and Adam
* :mod:`.directions`: Principal directions from a noisy second moment, and how far they may be from the true ones
* :mod:`.error_bounds`: How wrong a release may be
* :mod:`.leading`: Leading eigenvalues of a matrix that is too large to hold
* :mod:`.learned_ellipsoid`: An ellipsoid by axes about a centre, from noisy sums of records and noisy counts of how far
  out they lie
* :mod:`.likely_moments`: Second moments that records may have had, simulated from a released one: where first order
  is not enough
* :mod:`.linear_forms`: How exactly means, standard deviations and correlations will be known
* :mod:`.matrices`: From released integers to estimates in raw units, each with the standard deviation of its noise
* :mod:`.narrowed_bounds`: Bounds within an octave or two, from noisy counts of values by their leading binary digits:
  for values far from zero
* :mod:`.noisy_moments`: A released second moment as the source of further statistics, and how its noise moves them
* :mod:`.one_step`: Coefficients of a logistic regression with their errors, from weights near them and one released
  second moment
* :mod:`.postprocessing`: Post-processing of released matrices; costs no privacy
* :mod:`.ratios`: How far noise can take means and covariances from the truth, all of them at once, though they are
  ratios
* :mod:`.regression`: Linear regression from a released second moment, and how noise moves its coefficients
* :mod:`.rounding_error`: What rounding at places by content adds to the error of sums, in coordinates, beside the noise
* :mod:`.sampling_error`: How far statistics of the records may be from those of the population that these are a
  sample of
* :mod:`.shortening`: What shortening records to a learned ellipsoid takes from their means and covariances, as far as
  anything tells it
* :mod:`.shrunk_spectrum`: A positive semi-definite matrix from a noisy one: eigenvalues shrunk for the noise in
  them, at the released trace
* :mod:`.simulated`: What an error is after post-processing, and what it does to leading subspaces
"""
