"""CapacityScheduling: keeps namespaces within their ElasticQuotas, and preempts by them."""
