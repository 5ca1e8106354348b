"""Records: integers whose norm or range is bounded, whatever the chunk, the order of rows or the machine."""
