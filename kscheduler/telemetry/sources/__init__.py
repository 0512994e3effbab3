"""The kinds of metric sources, one module each. Between two fetches they store little more than their connections."""
