"""Studies: what it claims, what really holds, and labelled draws on public data.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.draws`: Draws of mechanisms that mix globally, for study
* :mod:`.error_constants`: Expected squared error over squared sensitivity, as the R1SMG paper compares mechanisms,
  and as it is
* :mod:`.error_moments`: Moments of the squared error that a release makes
* :mod:`.imgm`: The improved matrix Gaussian mechanism
* :mod:`.noisy_training`: Softmax regression on public data under the noise of several papers
* :mod:`.projections`: Gaussian sketches of private records (Johnson-Lindenstrauss)
* :mod:`.r1smg`: Rank-1 singular Gaussian noise (R1SMG) as published, for study only
* :mod:`.r1smg_attack`: How R1SMG noise is attacked
* :mod:`.r1smg_integral`: Privacy loss of R1SMG noise as an integral over size and angle
* :mod:`.r1smg_profile`: What R1SMG noise really gives
* :mod:`.sampled_steps`: Steps that see a random part of the records
* :mod:`.wishart`: Wishart noise on a second moment
"""
