"""Tools for data sets, apart from training: audit, convert, peek, prepare."""
