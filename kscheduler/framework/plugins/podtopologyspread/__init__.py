"""PodTopologySpread: keep pods of a kind evenly spread over zones, hosts or any other topology."""
