"""A first release: the configs that follow from public answers and the names of a source's columns.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.answers`: What somebody answers to begin with: each answer public, and none taken from the records
* :mod:`.column_answers`: What a person says about one column without having looked at it, in a few words
* :mod:`.column_names`: The names of a source's columns, and nothing else that it holds
* :mod:`.folder`: The folder of a first release: composed as text, planned as it will be read, and written whole or not
  at all
* :mod:`.interview`: The questions in their order: which of them is due, how it is asked, and what an answer in words
  means
* :mod:`.promised`: What each level of strictness promises of the release that follows from the answers, with the
  noise it would have
* :mod:`.texts`: The files of a first release, as commented TOML: what was answered, and what follows from it
* :mod:`.whole_answers`: Answers that are given all at once, by a file, a call or a form
"""
