"""Command lines of the studies. Their work, and what it imports, begins after the arguments are checked."""
