"""Shapes: the spread of Gaussian noise with the least error for that set, and the loss that this noise has."""
