"""Leading principal directions of a second moment."""
