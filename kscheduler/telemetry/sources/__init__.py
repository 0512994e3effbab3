"""The kinds of sources, one module each. None keeps anything but connections between two questions."""
