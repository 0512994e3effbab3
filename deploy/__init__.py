"""What is applied to a cluster, and `release/`, which builds what is published."""
