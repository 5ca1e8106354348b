"""Mechanisms that draw principal directions themselves, by the exponential mechanism.

* :mod:`.bingham`: Leading directions of a second moment by the exponential mechanism
* :mod:`.exact_bingham`: Unit vectors with density ``exp(c v'Av)``, drawn in whole numbers
* :mod:`.exponential`: Principal directions by the exponential mechanism, as a program whose privacy is proven
"""
