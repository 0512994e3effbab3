"""What we believe the cluster is: the watch's view, plus the pods we have placed and not yet seen there."""
