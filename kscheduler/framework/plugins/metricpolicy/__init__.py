"""MetricPolicy: filters and scores nodes by live metrics according to policies, and limits how long pods wait."""
