"""From a connector's rows to a range of segments that an epoch can take."""
