from array import array

def find_devices(
    claim_starts: array[int],
    variant_starts: array[int],
    has_alternatives: bytes,
    counts: array[int],
    matching: bytes,
    in_use: bytes,
    use_starts: array[int],
    use_counters: array[int],
    use_amounts: array[int],
    pool_of: array[int],
    pool_starts: array[int],
    available: array[int],
    constraint_claims: array[int],
    constraint_kinds: bytes,
    values: array[int],
    applies: bytes,
    most_steps: int,
) -> tuple[int, list[int] | None]: ...
