"""A hint index by tokens: labels, names and the like, of which each event has a few.

Each group of waiting pods is listed under some tokens, such that an event with none of them cannot help the group.
Where there is a choice (a node must have all labels of a node selector, so that any one of them will do), the token
with the fewest groups is taken: a token that half of all pods have would not narrow the search.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from itertools import chain

Token = Hashable
Options = Sequence[Sequence[Token]]  # an event that helps has a token of each of these sets; empty: any event may help

_ANYTHING: Token = object()


class Narrowing:
    """A `GroupIndex` by tokens: finds the groups of waiting pods that share a token (label, name) with an event.

    `options` returns, for a group's key, one list of token sets for each way in which an event can help the group. An
    event helps in that way only if it has a token of each set in the list. `brought` returns the tokens of an event;
    None stands for all tokens.
    """

    __slots__ = ("_brought", "_keys", "_options", "_places")

    def __init__(
        self,
        options: Callable[[Hashable], Sequence[Options]],
        brought: Callable[[object, object], Iterable[Token] | None],
    ) -> None:
        """Build an empty index."""
        self._options = options
        self._brought = brought
        self._keys: dict[Token, dict[Hashable, None]] = {}  # token -> the keys listed under it, in order of addition
        self._places: dict[Hashable, Collection[Token]] = {}  # key -> the tokens it is listed under

    def add(self, key: Hashable) -> None:
        places = dict.fromkeys(chain.from_iterable(map(self._choose, self._options(key))))
        self._places[key] = tuple(places)
        for place in places:
            self._keys.setdefault(place, {})[key] = None

    def _choose(self, options: Options) -> Sequence[Token]:
        if not options:
            return (_ANYTHING,)
        return min(options, key=self._population) if len(options) > 1 else options[0]

    def _population(self, tokens: Sequence[Token]) -> int:
        """Return the number of keys (groups of waiting pods) that are listed under these tokens."""
        return sum(len(self._keys.get(token, ())) for token in tokens)

    def remove(self, key: Hashable) -> None:
        for place in self._places.pop(key):
            keys = self._keys[place]
            del keys[key]
            if not keys:
                del self._keys[place]

    def find(self, old: object, new: object) -> Collection[Hashable]:
        tokens = self._brought(old, new)
        if tokens is None:
            return list(self._places)
        under = [self._keys[token] for token in (*tokens, _ANYTHING) if token in self._keys]
        return list(under[0]) if len(under) == 1 else dict.fromkeys(chain.from_iterable(under))
