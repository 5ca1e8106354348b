"""Public: files that later configs may name: shapes and bounds of records, directions of noise, weights.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.bounds_draft`: The config of a release of histograms, drafted from that of a release whose bounds are wanted
* :mod:`.listed`: The shape of least noise for records that come from a public list
* :mod:`.noise_directions`: Directions of noise from a published release
* :mod:`.private_bounds`: Bounds of columns from a published release of histograms: the charged way to learn them
* :mod:`.shaping`: A public shape from a published release: the charged way to let noise follow the data
* :mod:`.weights`: Public weights of a model, and the next weights after a released gradient
"""
