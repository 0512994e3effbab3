"""InterPodAffinity: where pods go by what other pods are there, or want."""
