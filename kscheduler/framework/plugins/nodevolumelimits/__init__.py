"""NodeVolumeLimits: no node gets more volumes of a CSI driver than the driver can attach to it."""
