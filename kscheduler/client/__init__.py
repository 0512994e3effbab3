"""Talks to the apiserver. Only this package knows that it speaks HTTP; all others see the protocol
`client.protocol.Client`.
"""
