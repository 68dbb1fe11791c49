"""The companies: a store, an airline and a telephone company."""
