"""A first release: the configs that follow from public answers and the names of a source's columns.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.answers`: What somebody answers to begin with: each answer public, and none taken from the records
* :mod:`.column_answers`: What a person says about one column without having looked at it, in a few words
* :mod:`.column_names`: The names of a source's columns, and nothing else that it holds
* :mod:`.earlier`: A release of the same source that is there already: a further question joins its ledger, keys, store
  and budget
* :mod:`.folder`: The folder of a first release: composed as text, planned as it will be read, and written whole or not
  at all
* :mod:`.interview`: The questions in their order: which of them is due, how it is asked, and what an answer in words
  means
* :mod:`.many_columns`: Answers about many columns at once: several names, a pattern of names, and everything else
* :mod:`.named_ranges`: Ranges that have a name, such as ``percent``, and those that the name of a column suggests
* :mod:`.next_steps`: What is to be run for a question, in which order and why; and the page of its folder that says so
* :mod:`.place`: Where the files of a question belong: names that the first one has alone, or beside earlier ones
* :mod:`.promised`: What each level of strictness promises of the release that follows from the answers, with the
  noise it would have
* :mod:`.purposes`: What a first release can be for: the part ``interview`` of each kind of query, and how it is asked
  and written
* :mod:`.texts`: The files of a first release, as commented TOML: what was answered, and what follows from it
* :mod:`.whole_answers`: Answers that are given all at once, by a file, a call or a form
* :mod:`.written_folder`: The folder of a release on the disk: written whole, or nothing of it
"""
