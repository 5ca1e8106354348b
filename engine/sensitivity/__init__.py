"""Sensitivity: how far one record can move the answer, along each spread of noise that a mechanism may choose."""
