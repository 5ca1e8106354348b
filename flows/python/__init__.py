"""Python: what a program or a notebook calls, by the rules of the command line.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.beginning`: ``blockveil.init``: the configs of a first release from the names of a source's columns and public
  answers
* :mod:`.granting`: ``blockveil.budget``: what a data set may spend, has spent and has left
* :mod:`.ingesting`: ``blockveil.ingest`` and ``blockveil.erase``: make the store of records that releases read
* :mod:`.planned`: ``blockveil.plan``: what a release would cost and how exact it would be
* :mod:`.running`: ``blockveil.run``: makes a release, or finishes one that was begun
* :mod:`.stating`: ``blockveil.ledger``: what an operator states of a ledger that was put back, moved, or whose key was
  lost
* :mod:`.sources`: The config, the date and the person of a call, as they are given
"""
