"""Mechanisms, one file a family, each with the theorem that carries its guarantee."""
