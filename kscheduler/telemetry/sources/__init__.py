"""The kinds of metric sources, one module each. Between two fetches they keep hardly more than their connections."""
