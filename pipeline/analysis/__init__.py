"""Analysis: labelled results of a release with standard errors, and statistics that follow from them at no charge.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.combined_nights`: Covariances of several nights as one estimate of the last, more exact than each of them, at
  no charge
* :mod:`.estimated_results`: Results of a release by name, each with its labels and its standard error
* :mod:`.estimators`: Estimators with the interface of scikit-learn that fit a release, never records
* :mod:`.export`: Writes the numbers of a release for other programs
* :mod:`.figures`: Pictures of a release as matplotlib figures, for a notebook or a file
* :mod:`.fits`: A regression and principal components of a release, with labels and errors
* :mod:`.joint_noise`: Features of a release by name, and how far an interval of its noise reaches
* :mod:`.labelled`: Arrays of a release as pandas and xarray objects, with names on every axis
* :mod:`.leading_part`: Leading eigenvalues and directions of a released matrix of any size, read by tiles, beside what
  noise alone gives
* :mod:`.linear_classifier`: A classifier that follows from a released covariance, at no charge
* :mod:`.logistic_regression`: A logistic regression that a release has trained, with standard errors and p-values
* :mod:`.model_files`: Files of a trained model for other programs: NumPy's npz, and ONNX in double precision
* :mod:`.opening`: Finds a published release where a person points
* :mod:`.optional`: Libraries that results are offered in, imported when they are asked for
* :mod:`.release`: A published release in the hands of an analyst
* :mod:`.released_tables`: Linear functions of released tables with their errors, and what was measured
* :mod:`.results`: What releases and their standard errors offer by name, and the promise of a release
* :mod:`.synthetic`: Synthetic records with the released mean and covariance, marked as such
* :mod:`.trained_estimators`: The model that a release has trained, with the interface of scikit-learn
* :mod:`.trained_model`: A model that a release has trained, for records of one's own
"""
