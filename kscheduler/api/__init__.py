"""The Kubernetes objects a scheduler reads: immutable, decoded once, with only the fields that matter here."""
