"""Pods and nodes as the guests expect them: protobuf, byte for byte as Kubernetes' own encoder writes it."""
