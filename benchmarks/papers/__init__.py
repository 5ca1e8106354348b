"""The experiments of the MVG, R1SMG and IMGM papers, run again at what each mechanism really guarantees.

``python -m benchmarks.papers [--trials 100] [--data DIR] [--pictures DIR]``. No clock.

* :mod:`.claims`: What the claims are worth; nothing is drawn
* :mod:`.mvg`: Experiments I to III of the MVG paper, with all baselines of its Tables 3 to 5
* :mod:`.r1smg`: Case II of the R1SMG paper
* :mod:`.trainings`: Case III of the R1SMG paper, and both types of the IMGM paper
* :mod:`.data`: Records, shipped or found by name, and checked
* :mod:`.releases`: Noise that the plans of ``configs/papers`` have, and releases by the product
* :mod:`.outcomes`: Tables, error bars and the paper's own figures
* :mod:`.pictures`: Both pictures of ``docs/papers.md``
"""
