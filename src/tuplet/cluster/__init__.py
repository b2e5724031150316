"""Work on several machines: an executor on a Ray cluster, and folders that travel by their content."""
