"""Texts of any size, tokenized once, in files that are read where they are."""
