"""Budget: whether the next loss fits, in exact whole numbers; losses of disjoint parts by parallel composition."""
