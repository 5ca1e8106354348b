"""Records: integers whose norm or range is bounded, whatever the chunk, the order of rows or the machine.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.dither`: Rounding to few integers without a bias
* :mod:`.fine_dither`: Rounding to many integers without a bias
* :mod:`.geometry`: The public shape of one record, and the linear coordinates in which that shape is a cube or a ball
* :mod:`.lattice`: Steps of a box in which declared codes and whole numbers, and zeros, are integers
* :mod:`.one_pass`: One pass from floats to the integers of a cube, compiled: what NumPy does in several passes, with
  the same result
* :mod:`.quantiser`: Records as integers whose bound provably holds, whatever the chunk, the row order, the thread or
  the machine
* :mod:`.quantiser_limits`: What the proof of a quantiser's bound covers
* :mod:`.record_kernels`: Kernels of :mod:`.one_pass`: plain Python on arrays, which a compiler takes one by one
* :mod:`.rounding`: From raw values to the integers of a cube, of a cube within a ball, or of a ball
"""
