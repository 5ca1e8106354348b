"""Study: findings in lines, and draws that are labelled as not private.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.auditing`: An audit of one mechanism: every case attacked, one confidence for all of them together
* :mod:`.contributions`: What one unit may contribute to the records of a config, and what everybody else does
* :mod:`.frames`: A study of PPCA as published
* :mod:`.frozen_outputs`: Mechanisms that draw otherwise than by adding noise under replay: what a unit moves with each
  output held fixed
* :mod:`.ingest_replay`: The config of an ingest under replay: made-up sources go through its own path, and the stores
  are compared
* :mod:`.made_up_rows`: Rows of people who do not exist, of the types that the config of an ingest declares
* :mod:`.made_up_source`: Made-up sources of the kind that the config of an ingest reads, each in a folder of its own
* :mod:`.moments`: Studies of Wishart noise and of Gaussian sketches
* :mod:`.pairs`: A study of IMGM with any pair of covariances, dense ones among them
* :mod:`.replay`: A config under replay: neighbouring data sets go through its own path under one key, and their
  releases are compared
* :mod:`.replay_path`: The path of a config from stored records to released integers, under keys that pay for nothing
* :mod:`.replayed`: What the replay of a config found, for a person and as plain values
* :mod:`.replayed_stages`: Stages beside the answer under replay: a unit is in all of them
* :mod:`.sampling`: A study of steps that see a random part of the records
* :mod:`.study_release`: Studies of mechanisms that no config can release
* :mod:`.training_findings`: A study of training under the noise of several papers, on public data
"""
