"""Public: files that later configs may name: shapes of records, and directions of noise.

The README of this folder says what goes in, what comes out, and which rule holds here.

* :mod:`.listed`: The shape of least noise for records that come from a public list
* :mod:`.noise_directions`: Directions of noise from a published release
* :mod:`.shaping`: A public shape from a published release: the charged way to let noise follow the data
"""
