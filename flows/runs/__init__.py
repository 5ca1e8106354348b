"""Runs: the steps of a night as tasks, its states, its page and its alarms.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.artifacts`: What a run's page shows
* :mod:`.conductor`: Conducts one release from its reservation to its report, whoever runs the steps
* :mod:`.deployed`: The deployment that a run belongs to, as the reviewed folder has it
* :mod:`.ingest_flow`: The ingest flow
* :mod:`.overrides`: What a run may change of a reviewed config
* :mod:`.pace`: How fast a stage goes, in words
* :mod:`.plan_flow`: The flow for what-if questions
* :mod:`.quiet`: Keeps a terminal readable
* :mod:`.release_flow`: The release flow: a thin Prefect shell around :mod:`.night`
* :mod:`.reviewed`: Where the reviewed configs of this installation lie, and which file a name stands for
* :mod:`.run_log`: Warnings of plain functions, which know no Prefect, on the page of the run that called them
* :mod:`.steps`: Steps of a run as Prefect tasks, and failures as states that say what was and what was not spent
* :mod:`.stopping`: A signal ends a run as an exception, so that the run gives back what it holds
* :mod:`.turns`: One run of a data set at a time, over all deployments and machines of a server
* :mod:`.verify_flow`: The flow that verifies a ledger
"""
