"""``tfdp bench chaos``: hurts a run in every way that can be made to happen here, and looks on."""
