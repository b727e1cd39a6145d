"""Where examples come from: one file for each kind of source, one interface for all."""
