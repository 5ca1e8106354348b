"""Shapes: the spread of Gaussian noise with the least error for that set, and the loss that this noise has.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.adapted`: The ellipsoid of least noise for records whose covariance is public
* :mod:`.box_noise`: Least independent Gaussian noise for answers that change within a box, or within a box and a ball
* :mod:`.duality`: Least Gaussian noise for any finite set of answer changes, with a certificate of how far from least
  it is
"""
