"""How the members of a consistency group go together."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class DiamondConsistency(StrEnum):
    """Whether the views of a diamond commit an epoch together."""

    NONE = "none"
    ATOMIC = "atomic"


class DiamondSchedulePolicy(StrEnum):
    """When a group whose members have schedules of their own is due.

    The views in which a diamond's paths meet own the policy; of several the strictest counts.
    """

    FASTEST = "fastest"
    """As soon as one member is due."""

    SLOWEST = "slowest"
    """Not before all members are due."""

    def stricter(self, other: DiamondSchedulePolicy) -> DiamondSchedulePolicy:
        """Return the policy that waits longer."""
        return max(self, other, key=(DiamondSchedulePolicy.FASTEST, self.SLOWEST).index)


def is_group_due(policy: DiamondSchedulePolicy, members_due: Iterable[bool]) -> bool:
    """Return whether a group steps, given which of its members are due.

    For a group of one both policies say what its own schedule says.
    """
    due = tuple(members_due)
    return any(due) if policy is DiamondSchedulePolicy.FASTEST else all(due)
