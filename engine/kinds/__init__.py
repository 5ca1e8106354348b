"""What each kind of query is to the engine: its problem with the proof of its sensitivity, and its estimates."""
