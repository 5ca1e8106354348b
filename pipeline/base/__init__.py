"""Base: errors with their exit codes, canonical JSON, durable writes, staging folders, printable text.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.canonical`: One way to write plain values as bytes, so that equal values have equal digests on every machine
* :mod:`.drawing`: Settings of pictures
* :mod:`.durable`: Files that survive a power loss, and file-system errors in words
* :mod:`.errors`: Errors a caller can act on
* :mod:`.extras`: Libraries that only some uses need: which extra of the package brings each of them
* :mod:`.interrupts`: What must be done although a person or a service manager asks the process to end, and asks again
* :mod:`.offers`: Classes that other packages offer as entry points
* :mod:`.permissions`: Who may write to a ledger in a file
* :mod:`.places`: Paths that people write
* :mod:`.printable`: Text from outside, such as a config, a path or a published file, made harmless for whatever shows
  it
* :mod:`.showing`: Rows of facts as text and as HTML
* :mod:`.spelling`: The one spelling of a value that divides records
* :mod:`.staging`: Unfinished releases
* :mod:`.written_numbers`: Numbers as a person reads them
"""
