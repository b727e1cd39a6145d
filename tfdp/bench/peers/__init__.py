"""Programs that are measured in turn: tfdp, and other libraries beside it."""
