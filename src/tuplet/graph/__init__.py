"""Knowledge graphs: names, edges in both directions, splits, readers and the directory format."""
