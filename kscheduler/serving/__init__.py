"""The parts of the HTTPS endpoint: authentication, authorization, health checks and certificates."""
