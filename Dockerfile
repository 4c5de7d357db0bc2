# The project in NVIDIA's CUDA image, for every GPU that the toolkit knows: docs/many-gpus.md. Its build is what
# has to pass before a change lands. Another toolkit: docker build --build-arg CUDA=12.8.1 .
# A tag can be given to another image later. The digest that docker pull prints pins this one:
# docker build --build-arg IMAGE=nvidia/cuda@sha256:... .
ARG CUDA=13.0.1
ARG IMAGE=nvidia/cuda:${CUDA}-devel-ubuntu24.04
FROM ${IMAGE}

# What the first make needs to find, and install, the rest.
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
  ca-certificates ccache git make python3 python3-venv
WORKDIR /reprolab
COPY . .
RUN .ci/run && make build dropin PRESET=all-archs
