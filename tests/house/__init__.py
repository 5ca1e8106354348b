"""What tests share: a small release, servers, hosts and storages that they start, and how they are run."""
