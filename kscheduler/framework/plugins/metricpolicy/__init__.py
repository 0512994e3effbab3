"""MetricPolicy: filters and scores nodes by live metrics, as policies say, with bounded waiting."""
