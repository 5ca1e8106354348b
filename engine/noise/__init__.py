"""Noise: noise as integers, a pure function of key, row and column; and sums with that noise.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.additive`: Additive noise on exact integer answers
* :mod:`.banded`: Gaussian noise of the steps of a training that cancels from step to step, where a record is in few of
  them
* :mod:`.compiled_levels`: Levels of Gaussian noise in one pass over their random words, compiled
* :mod:`.design`: The noise of one release as plain data
* :mod:`.discrete_gaussian`: Secure discrete Gaussian noise as a pure function of (key, row, column)
* :mod:`.discrete_laplace`: Secure discrete Laplace noise of any rational rate, as a pure function of (key, row, column)
* :mod:`.entry_noise`: Noise of every entry of a matrix from a number for each row and column
* :mod:`.exact_matrix`: Matrices of whole numbers of any size, exactly
* :mod:`.exact_random`: Random numbers whose law is exact: whole numbers only, from the bits of a key
* :mod:`.gaussian_table`: The discrete Gaussian of width S = 2048 as a 127-bit cumulative table, and its inversion for
  vectors of random words
* :mod:`.keyring`: Where a task finds the noise key of its release
* :mod:`.level_strategy`: A statistic of growing records, published every night: records count by a whole-number
  weight that falls with age
* :mod:`.level_weights`: Weights by age for tabled numbers of nights: those of least noise, found once and rounded to
  8 bits
* :mod:`.sampled_noise`: Gaussian noise for steps that are each over a secret sample of the records, composed by privacy
  loss distributions
"""
