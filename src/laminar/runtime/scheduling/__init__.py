"""Which views an epoch moves, which it holds, and why."""
