"""InterPodAffinity: places pods near, or away from, other pods."""
