"""Shapes: the spread of Gaussian noise with the least error for that set, and the loss that this noise has.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.closed_forms`: Whole designs of least Gaussian noise for sets of answer differences
* :mod:`.duality`: Least Gaussian noise for any finite set of answer changes, with a certificate of how far from least
  it is
* :mod:`.optimal`: Least Gaussian noise for structured sets of answer changes
"""
