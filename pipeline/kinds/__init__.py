"""What is known of each kind of query, one folder each; a room asks a kind for a part by the name of its file."""
