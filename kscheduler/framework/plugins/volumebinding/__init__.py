"""VolumeBinding: places a pod where its volumes are or can be, and chooses and binds volumes for its unbound claims."""
