"""DynamicResources: allocates devices to the ResourceClaims of pods."""
