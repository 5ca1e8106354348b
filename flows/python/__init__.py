"""Python: what a program or a notebook calls, by the rules of the command line."""
