"""A scheduler that goes away: the run says so in its own words, and nothing else does."""

import logging
import time
from io import StringIO

from distributed import Client, LocalCluster

import blockveil.flows.cluster.clusters  # noqa: F401 - what every run on a cluster imports


def test_a_scheduler_that_goes_away_writes_no_traceback_into_the_log():
    said = StringIO()
    handler, theirs = logging.StreamHandler(said), logging.getLogger("distributed.client")
    theirs.addHandler(handler)
    try:
        cluster = LocalCluster(n_workers=0, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0")
        with Client(cluster.scheduler_address, set_as_default=False, timeout=1) as client:
            cluster.close()
            while client.status not in ("closing", "closed"):
                time.sleep(0.02)
    finally:
        theirs.removeHandler(handler)
    assert said.getvalue() == ""
