"""The epochs that are kept: commits, snapshots, differences, compaction."""
