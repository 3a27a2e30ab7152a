"""GROUP BY: keys by name, position or alias, and the sets of ROLLUP, CUBE and GROUPING SETS."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

from sqlglot import exp

from laminar.plan.aggregate_calls import has_aggregates
from laminar.plan.reasons import NoRule, Reason
from laminar.plan.same_expression import form
from laminar.plan.scope import Scope, is_position, text

Sets = list[list[str]]


@dataclass(frozen=True, slots=True)
class GroupKeys:
    """Resolves the keys of one SELECT; `names` and `items` are its output columns.

    Keys that Spark takes for the same are one, written as the first of them is.
    """

    scope: Scope
    names: list[str]
    items: list[exp.Expr]
    forms: dict[str, str] = field(default_factory=dict)  # what keys say -> as they are written

    def of(self, group: exp.Group | None) -> tuple[list[str], Sets | None]:
        """Return all keys, and the sets to group by if there is more than one."""
        if group is None:
            return [], None
        if group.args.get("all"):
            keys = [each for each in self.items if not has_aggregates([each])]
            return [self._written(each) for each in keys], None
        listed = list(group.expressions)
        for kind in ("rollup", "cube", "grouping_sets"):
            for trailing in group.args.get(kind) or []:
                if trailing.expressions:  # GROUP BY a, b GROUPING SETS (...): the sets say it all
                    return [self._key(each) for each in listed], self._sets(trailing)
                listed = [type(trailing)(expressions=listed)]  # GROUP BY a, b WITH ROLLUP
        return self._combined(listed)

    def _combined(self, listed: list[exp.Expr]) -> tuple[list[str], Sets | None]:
        """Every plain key is in every set; several lists of sets are multiplied.

        The keys are numbered as they are written, which is what GROUPING_ID() shows.
        """
        plain: list[str] = []
        factors: list[Sets] = []
        keys: dict[str, None] = {}
        for each in listed:
            if isinstance(each, exp.Rollup | exp.Cube | exp.GroupingSets):
                factors.append(self._sets(each))
                keys.update(dict.fromkeys(key for part in factors[-1] for key in part))
            else:
                plain.append(self._key(each))
                keys.setdefault(plain[-1])
        if not factors:
            return plain, None
        sets = [plain]
        for factor in factors:
            sets = [[*left, *right] for left in sets for right in factor]
        if keys:
            return list(keys), sets
        if len(sets) > 1:
            raise NoRule(Reason.UNKNOWN_CLAUSE, "several empty sets and no key")
        return [], None  # GROUPING SETS (()) has one row even of nothing

    def _sets(self, node: exp.Expr) -> Sets:
        def members(part: exp.Expr) -> list[str]:
            inner = part.expressions if isinstance(part, exp.Tuple) else [part]
            inner = [each.this if isinstance(each, exp.Paren) else each for each in inner]
            return [self._key(each) for each in inner]

        if isinstance(node, exp.GroupingSets):
            sets: Sets = []
            for part in node.expressions:
                if isinstance(part, exp.Rollup | exp.Cube):
                    sets += self._sets(part)
                else:
                    sets.append(members(part))
            return sets
        parts = [members(part) for part in node.expressions]
        if isinstance(node, exp.Rollup):
            chosen = [parts[:length] for length in range(len(parts), -1, -1)]
        else:
            chosen = [
                list(some)
                for length in range(len(parts), -1, -1)
                for some in combinations(parts, length)
            ]
        return [[key for part in some for key in part] for some in chosen]

    def _key(self, key: exp.Expr) -> str:
        """Resolve a grouping key: a position, a column, or the alias of an output column."""
        if is_position(key, self.items):
            return self._written(self.items[int(key.this) - 1])
        if isinstance(key, exp.Column) and not key.table and not self.scope.owns(key):
            lowered = [name.lower() for name in self.names]
            if key.name.lower() in lowered:
                return self._written(self.items[lowered.index(key.name.lower())])
        return self._written(key)

    def _written(self, key: exp.Expr) -> str:
        resolved = self.scope.resolve(key)
        return self.forms.setdefault(form(resolved), text(resolved))
