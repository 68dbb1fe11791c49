"""The viewer of stored trajectories: an index beside the store, a page on loopback, human feedback for trainers."""
