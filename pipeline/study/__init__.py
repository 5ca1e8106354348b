"""Study: findings in lines, and draws that are labelled as not private.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.auditing`: An audit of one mechanism: every case attacked, one confidence for all of them together
* :mod:`.frames`: A study of PPCA as published
* :mod:`.moments`: Studies of Wishart noise and of Gaussian sketches
* :mod:`.pairs`: A study of IMGM with any pair of covariances, dense ones among them
* :mod:`.sampling`: A study of steps that see a random part of the records
* :mod:`.study_release`: Studies of mechanisms that no config can release
* :mod:`.training_findings`: A study of training under the noise of several papers, on public data
"""
