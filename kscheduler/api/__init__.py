"""The Kubernetes objects that a scheduler reads: immutable, decoded once, with only the fields that matter to it."""
