# Image of the ranks of CPU arms: Python, torch, nothing else. The worker's sources are mounted by every gang, so that this image
# stands while they change. GPU arms run in the images of their backends, by digest.
#
#   docker build -t REGISTRY/ep-worker - < deploy/worker.Dockerfile
#
# PyTorch's CPU wheels (0.2 GB instead of several) come from PyTorch's own index: --build-arg PIP_INDEX_URL=<that index>.
# A place names the image by the digest that a push or a load printed; what really ran is recorded from each pod's status.
FROM python:3.11-slim-bookworm
ARG TORCH_VERSION=2.13.0
ARG PIP_INDEX_URL
RUN python -m pip install --no-cache-dir "torch==${TORCH_VERSION}"
USER 65534:65534
