"""VolumeBinding: place a pod where its volumes are, or can be; choose and bind the volumes of its unbound claims."""
