"""NodeVolumeLimits: see `plugin`."""
