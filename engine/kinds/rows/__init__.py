"""The records themselves: how far one of them moves its row."""
