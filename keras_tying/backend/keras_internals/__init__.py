"""The private names of Keras that the library uses.

These modules read or override names that Keras does not document, because there are no public ones. No other module of
the library does so. `tests/backend/test_keras_internals.py` fails if a new version of Keras changes one of these names.
"""
