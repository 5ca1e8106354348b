"""A first release: the configs that follow from public answers and the names of a source's columns."""
