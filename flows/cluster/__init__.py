"""Cluster: a Dask cluster for one run, over TLS, whose workers were checked before they get work.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.clusters`: One Dask cluster for one run, with settings that keep un-noised values and keys where they belong
* :mod:`.computing`: Where one run computes: threads of this process, or the cluster of its config
* :mod:`.distributed_compute`: A release's graph on a Dask cluster
* :mod:`.local_workers`: Worker processes of this machine that obey their own run alone
* :mod:`.scratch`: Where workers may spill un-noised values
* :mod:`.workers`: Workers on other machines, checked before they get any work
"""
