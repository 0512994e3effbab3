"""Amounts of resources that pods of equal requests use together, added to vectors and compared with limits.

Amounts are Python's integers, since quotas are in bytes and may be of any size.
"""


def add_amounts(list vector not None, request, times=1):
    """Add a request, as pairs of a place and an amount, to a vector in place, so many times; -1 subtracts it.

    The vector grows as needed.
    """
    cdef Py_ssize_t at
    for place, amount in request:
        at = place
        if at < 0:
            raise IndexError(f"place: expected at least 0, got {at}")
        if at >= len(vector):  # a resource that nobody has used yet
            vector.extend([0] * (at + 1 - len(vector)))
        if amount:
            vector[at] = vector[at] + times * amount


def is_within(dict limits not None, list used not None, tuple request not None, number):
    """Return whether so many equal requests beside what is used exceed no limit of the resources that they name.

    `limits`: place -> the most that may be used; other resources have none. Past its end, nothing is used. An amount of
    zero is compared, too: its limit may be exceeded already.
    """
    cdef Py_ssize_t at
    for place, amount in request:
        limit = limits.get(place)
        if limit is None:
            continue
        at = place
        asked = number * amount if amount else 0
        if (used[at] + asked if at < len(used) else asked) > limit:
            return False
    return True
