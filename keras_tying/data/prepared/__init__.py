"""Encoded texts on disk, for texts that do not fit into memory."""
