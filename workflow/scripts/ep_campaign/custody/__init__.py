"""Custody on a cluster: whose the nodes are, whether they are fit, what really carried the bytes, and that nothing stays behind.

Every module judges plain Kubernetes objects (the JSON that the API serves); only `api` talks to a server.
"""
