"""Data: records that are opened, checked and identified; releases that are read again.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.answering_store`: A Zarr store at an address in an object store, whose failures are reported in words, whenever
  values are read
* :mod:`.content`: Digest of arrays by content
* :mod:`.content_key`: Digests of stored records under a private key, as they stand in a ledger
* :mod:`.contribution`: What one privacy unit contributes to the records, in words
* :mod:`.datasets`: The records of a release: opened read-only, checked against their declaration, identified
* :mod:`.fingerprint`: The identity of stored records
* :mod:`.grown_rows`: Records of a store that grows
* :mod:`.history`: Records that only ever grow
* :mod:`.object_writes`: Writing to an object store, which has no locks and no renames
* :mod:`.objects`: Objects in S3-compatible stores, Google Cloud Storage and Azure
* :mod:`.plain_rows`: Rows of a Zarr array whose chunks lie on the disk as they lie in memory, read straight to where
  they are wanted
* :mod:`.preview`: A look at the metadata of the records, so that a plan promises nothing that a run would refuse
* :mod:`.quickstart`: The quickstart
* :mod:`.released`: Reading a release: nothing is returned whose content does not match its digest
* :mod:`.sparse_store`: Sparse records on the disk
* :mod:`.stores`: Zarr arrays by their location: a local folder, or an address in an object store
* :mod:`.zarr_arrays`: Zarr arrays on a local file system
* :mod:`.zarr_thread`: The thread in which Zarr reads and writes, at the end of a process
* :mod:`.ingest`: From files of records to the Zarr array that releases read; :mod:`.ingest_run` has its order
"""
