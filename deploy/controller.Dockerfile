# Image of a controller that runs inside the cluster: Snakemake and this repository. Ranks run in the arms' own images.
#   docker build -f deploy/controller.Dockerfile -t REGISTRY/ep-campaign-controller .
FROM python:3.12-slim
RUN useradd --create-home --uid 1000 campaign
WORKDIR /ep-campaign
COPY requirements.lock ./
RUN pip install --no-cache-dir --requirement requirements.lock
COPY --chown=campaign . .
RUN pip install --no-cache-dir --no-deps --no-build-isolation --editable . --editable workflow/executor \
 && chown campaign /ep-campaign
USER campaign
ENTRYPOINT ["snakemake"]
