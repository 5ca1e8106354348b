"""Runs: the steps of a night as tasks, its states, its page and its alarms."""
