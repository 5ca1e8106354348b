"""Base: errors with their exit codes, canonical JSON, durable writes, staging folders, printable text."""
