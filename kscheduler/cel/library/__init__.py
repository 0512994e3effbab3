"""The functions of the environment, one module for each library of cel-go or Kubernetes. Each has `FUNCTIONS`."""
