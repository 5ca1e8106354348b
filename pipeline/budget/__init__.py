"""Budget: whether the next loss fits, in exact whole numbers; losses of disjoint parts by parallel composition.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.event_files`: Events in a file: what another tool, or a plan, draws, as TOML
* :mod:`.filter`: What charges cost together, and whether a budget holds one more: a privacy filter
* :mod:`.parts`: Releases of disjoint parts of the records
"""
