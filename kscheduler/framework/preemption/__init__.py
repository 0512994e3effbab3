"""Preemption in general: evicting pods from a node to make room, whatever rule chooses the victims."""
