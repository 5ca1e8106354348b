"""Mechanisms as their papers publish them, each charged at the exact loss of the noise that it prescribes.

* :mod:`.buckets`: DAWA as it is released
* :mod:`.classic`: The classic Gaussian mechanism
* :mod:`.dawa`: Data-aware counts (DAWA)
* :mod:`.hierarchy`: Hierarchical counts (Hb)
* :mod:`.matrix_noise`: Mechanisms with the calibration that their papers print, for comparison
* :mod:`.mgm`: The matrix Gaussian mechanism (MGM), the variant of MVG from which IMGM was improved
* :mod:`.mvg`: The matrix-variate Gaussian (MVG) mechanism
* :mod:`.mvg_allocation`: How a precision budget is shared between directions
* :mod:`.mvg_limits`: The published limits of MVG
* :mod:`.mvg_noise`: MVG as published and with its exact budget
* :mod:`.subspace`: Gaussian noise on a second moment for its leading subspace
* :mod:`.subspace_noise`: Published Gaussian noise on a second moment for its leading subspace
* :mod:`.tree_search`: Which tree, and how the noise of its levels compares
"""
