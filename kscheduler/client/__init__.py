"""Talks to the apiserver. Only this package knows that it speaks HTTP; others use `client.protocol.Client`."""
