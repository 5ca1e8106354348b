"""Releases: a published release with its ledger entries, or nothing and no charge.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.catch_up`: Which nights are due although their time has passed
* :mod:`.charged_steps`: The steps of a night as plain functions: reserve, measure, publish, seal, or abandon
* :mod:`.compute`: What a release needs from whatever runs its graph
* :mod:`.contents`: The key under which a ledger has digests of records
* :mod:`.destination`: A place in an object store that published releases are sent to, where readers of other
  machines find them
* :mod:`.growing`: What a night that shares a charge needs of the nights before it: where their records end, and what
  was read of them
* :mod:`.in_memory`: A small answer summed and drawn in memory, by the graphs that a release runs: previews, audits, and
  first stages
* :mod:`.keys`: The secret of one release
* :mod:`.lineage`: Tells a lineage catalogue of a run when the run ends
* :mod:`.lost_key`: What becomes of a ledger whose key of digests was lost: the way out where no copy of the key is
  left
* :mod:`.lost_ledger`: A ledger that has forgotten charges
* :mod:`.measurement`: What a night measures: the exact sum before the charge is committed, its noise after that, and
  arrays of a release
* :mod:`.night`: One night, start to end: the order of its steps, and one try to take them
* :mod:`.order`: Steps as data, which any runner walks in their order
* :mod:`.outputs`: What a published release holds
* :mod:`.post_processing_error`: Error of a release after its post-processing, as written into it
* :mod:`.publishing`: Released arrays become a published release: staged, checked, renamed, pointed to
* :mod:`.put_back`: An operator states that an older copy of the ledger was put back, or that none was: what the ledger
  and keys then do
* :mod:`.renewing`: What an erasure does in the ledgers of the releases that read a store
* :mod:`.retention`: Old releases are removed; their ledger entries never are
* :mod:`.training_steps`: The steps of a training: each reads the records at the weights that the noisy sums before it
  gave
* :mod:`.withdrawing`: A release that proved wrong is withdrawn: in the ledger first, then wherever readers find it
"""
