"""MetricPolicy: filter and score nodes by live metrics, as policies say, and never wait for longer than they say."""
