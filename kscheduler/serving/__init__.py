"""Parts of the HTTPS endpoint: who may ask, what is healthy, and which certificate answers."""
