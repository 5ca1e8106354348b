"""Accuracy: how exactly each number of a planned release will be known, and what would make it more exact.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.accuracy_page`: The accuracy of a plan as one self-contained HTML page, and as a part of a run's page
* :mod:`.assessing`: How exactly each number of a planned release will be known, as its kind says
* :mod:`.assessment`: How exactly the numbers of a planned release will be known, in words and as data
* :mod:`.changes`: Changes of a config that give less noise, each with its price
* :mod:`.directions`: How many principal directions will be found, in words
* :mod:`.expected`: What a kind of query says beforehand of the error of its answers, and of records that are supposed
  for it
* :mod:`.extreme_rows`: Rows that move a release as far as a unit's rows can: constructed from what is declared, and
  never read
* :mod:`.good_enough`: All that answers whether a plan is good enough: errors, levers, a preview and what reaches a
  wanted accuracy
* :mod:`.learned_answers`: The answer of a night that learns, as it would be for supposed records: its noise follows
  where records lie
* :mod:`.levers`: What would make a release more exact, how much, and at which price
* :mod:`.number_error`: One number of a release and how exactly it will be known, in its own unit, with the words for
  it
* :mod:`.plan_page`: What a run's page says of a plan before anything is read or spent
* :mod:`.population`: Who the records are supposed to be, for display alone
* :mod:`.preview`: What a kind of query says of the preview of its releases
* :mod:`.priced_change`: A change of a config with its price, and the three that can be of any size: rows per unit,
  fewer nights, epsilon
* :mod:`.rehearsal`: A preview: simulated records go the way of a release, in memory, with a key that is thrown away
* :mod:`.rehearsal_picture`: The picture of a preview: the truth about simulated records beside their release
* :mod:`.rhythm`: How often a config is released, as far as its folder says
* :mod:`.shading`: Two matrices beside each other as text, for a terminal
* :mod:`.shape_changes`: Changes of bounds, norm, origin and features that give less noise, each with its price
* :mod:`.simulated_records`: Simulated records for a preview, from declared bounds and stated numbers alone
* :mod:`.target`: From accuracy to budget: which epsilon, rows per unit or nights meet a target
"""
