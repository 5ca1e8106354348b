"""K-norm noise: entries of a row, or of a whole answer, get their noise together.

* :mod:`.ball_noise`: Secure noise whose probability falls with the length of the whole answer, exactly, as a pure
  function of the key
* :mod:`.cube_noise`: Secure noise whose probability falls with the largest entry of a row, as a pure function of (key,
  row, column)
* :mod:`.joint_entries`: How far one entry of K-norm noise goes: its law, in units of its standard deviation
* :mod:`.norm_noise`: K-norm noise: what one record may change is a body, and the law of the noise falls with the norm
  of that body
"""
