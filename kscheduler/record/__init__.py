"""Records a cluster in a replayable file: the objects that scheduling decisions depend on, and their changes."""
