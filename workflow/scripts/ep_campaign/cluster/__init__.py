"""A Kubernetes cluster as a place: starts as gangs of pods."""
