"""Plan: every number that decides the release: sensitivity, noise, charge, error, cost; and a digest of it.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.approval`: Whether a person must agree before a release spends
* :mod:`.axis_names`: Names of axes that a reader or an exporter of the release uses itself: refused, so that what is
  paid for is readable
* :mod:`.balance`: A budget in words and numbers: what it holds, what is spent and left of it, and what a guess reaches
* :mod:`.begun_plans`: A plan as the ledger has it: which night of its charge it is, and whether it was charged
  already
* :mod:`.budgets`: The budget that a plan would be charged to
* :mod:`.coarse_steps`: Whether whole steps make noise larger than the guarantee needs, since integers have no room for
  finer ones
* :mod:`.describing`: The third step of a plan: what the ledger stores, as plain JSON, nothing private in it
* :mod:`.designing`: The second step of a plan: the engine's numbers
* :mod:`.earlier_shape`: Where the records of an earlier night lie: what was published of it, in the place of a pilot
* :mod:`.effort`: What a plan asks of the machine that runs it: rows at once, threads, memory and time
* :mod:`.excess_noise`: Whether the noise of a plan exceeds anything that records in the declared bounds can give, and
  what would change it
* :mod:`.finite_numbers`: Whether every number that a release would publish stays far inside float64, told from its plan
  alone
* :mod:`.forecast`: How long a budget lasts
* :mod:`.forecast_lines`: A forecast in words, as a terminal shows it
* :mod:`.grouping`: Several rows per unit
* :mod:`.machine_speed`: How fast this machine is, in about a second: the rates of the cost model
* :mod:`.mechanism_choice`: From the ``[mechanism]`` of a config to the mechanism
* :mod:`.mechanisms_compared`: The mechanisms that ``auto`` compared, in words: names, errors, and why or why not
* :mod:`.nights`: Nights that share one charge and noise
* :mod:`.planning`: The plan of one release: every number that decides it, complete before any record is read
* :mod:`.price`: What a planned release takes of the budget that would pay
* :mod:`.promise`: What a plan promises, in words
* :mod:`.published_epsilons`: What published deployments promise
* :mod:`.resolving`: The first step of a plan: from a config and a date to a question, a mechanism and a guarantee
* :mod:`.rounded`: What the rounding of records adds to the error of a release, beside its noise, and how few bits are
  enough
* :mod:`.shares`: What a release promises that takes a share of a guarantee
* :mod:`.signed_approval`: Approvals that officers sign with keys of their own, where a config wants that: written,
  found, and asked for
* :mod:`.splitting`: One guarantee shared by several releases
* :mod:`.stages`: Stages beside the answer of a night, under one charge with it: what each asks and released, and what
  states it
* :mod:`.summary`: A plan in words and numbers, for a terminal, an artifact and a report. Reads no data
* :mod:`.vetting`: Releases with mechanisms and queries of other packages
* :mod:`.what_if`: What-if questions
"""
