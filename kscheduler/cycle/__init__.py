"""The scheduling and binding cycles: decide about pods, bind them, and keep those that wait or were refused."""
