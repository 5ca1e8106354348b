"""Service: a Prefect server with a login, a schedule and runners; or registered deployments and workers of a team.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.admission`: What a run obeys
* :mod:`.alarms`: What there is to tell a person of, decided by states of now
* :mod:`.answering`: Small servers of our own, which answer from a thread and log no request
* :mod:`.automations`: How alarms are sent
* :mod:`.child`: The process of one run
* :mod:`.connections`: Bounds for connections that have not shown the login
* :mod:`.deploy`: A team's server
* :mod:`.deployments`: Deployments as code
* :mod:`.door`: The door of a Prefect server
* :mod:`.limits`: Limits on the server by which one run at a time works, put right whatever somebody has made of them
* :mod:`.login`: The login of the Prefect server that `blockveil serve` starts, and the one place where it is kept
* :mod:`.mail`: Prefect block for e-mail through a mail server of one's own
* :mod:`.metrics`: Budgets and nights for Prometheus. Public numbers only
* :mod:`.named_server`: The Prefect server that the environment or the profile names
* :mod:`.own_secret`: Secrets that this program makes for itself, each one line in a file that its user alone may read
* :mod:`.pages`: What a server can show of its runs and deployments, whatever one of them holds
* :mod:`.recovery`: After an interruption
* :mod:`.revival`: Nights whose process died
* :mod:`.runner`: Starts runs, each as a process of this code
* :mod:`.server`: A Prefect server of one machine
* :mod:`.service`: One machine
* :mod:`.silence`: Runs that seem to be at work although their process is gone
* :mod:`.site_service`: The site of all releases beside the Prefect server, behind the same login
* :mod:`.start_child`: Starts the process of one run
* :mod:`.start_server`: Starts a Prefect server behind our door
"""
