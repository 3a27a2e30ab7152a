"""One epoch: bindings, statements, results, for all views that move."""
