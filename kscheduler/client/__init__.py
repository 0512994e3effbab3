"""The apiserver. The only package that knows it is HTTP; everyone else sees `client.protocol.Client`."""
