"""One release from start to end: config, plan, ledger, keys, data, publishing, report. Knows no Prefect and no Dask
client.
"""
