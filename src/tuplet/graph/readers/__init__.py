"""Reading facts: files, dataset folders, data frames, Arrow tables, tuples."""
