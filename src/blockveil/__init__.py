"""Large matrices from private records, released every night under differential privacy.

``blockveil.flows`` orchestrates what ``blockveil.pipeline`` does in one night with the theorems of
``blockveil.engine``; ``blockveil.testing`` is for tests of mechanisms and ledgers in other packages.
"""
