"""The scheduling and binding cycles: decide about pods and bind them, and try pods again whose binding was refused."""
