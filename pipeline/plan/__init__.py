"""Plan: every number that decides the release: sensitivity, noise, charge, error, cost; and a digest of it.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.approval`: Whether a person must agree before a release spends
* :mod:`.balance`: A budget in words and numbers: what it holds, what is spent and left of it, and what a guess reaches
* :mod:`.begun`: How the plan of a release that an earlier version began was written down, so that it is finished under
  its digest
* :mod:`.drowning`: Whether the noise of a plan exceeds anything that records in the declared bounds can give, and what
  would change it
* :mod:`.editions`: Which formulas a plan is made by: those of this version, or those by which an earlier version began
  the release
* :mod:`.forecast`: How long a budget lasts
* :mod:`.forecast_picture`: The picture of a forecast: what is left of a budget by day, and ahead
* :mod:`.grouping`: Several rows a unit
* :mod:`.machine_speed`: How fast this machine is, in about a second: the rates of the cost model
* :mod:`.mechanism_choice`: From the ``[mechanism]`` of a config to the mechanism
* :mod:`.names_apart`: Names of compared mechanisms, no two of which are alike
* :mod:`.nights`: Nights that share one charge and noise
* :mod:`.planning`: The plan of one release: every number that decides it, complete before any record is read
* :mod:`.price`: What a planned release takes of the budget that would pay
* :mod:`.published_epsilons`: What published deployments promise
* :mod:`.rounded`: What the rounding of records adds to the error of a release, beside its noise, and how few bits are
  enough
* :mod:`.shares`: What a release promises that takes a share of a guarantee
* :mod:`.splitting`: One guarantee shared by several releases
* :mod:`.summary`: A plan in words and numbers, for a terminal, an artifact and a report. Reads no data
* :mod:`.vetting`: Releases with mechanisms and queries of other packages
* :mod:`.what_if`: What-if questions
"""
