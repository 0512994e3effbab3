"""PodTopologySpread: spreads similar pods evenly over zones, hosts or other topology domains."""
