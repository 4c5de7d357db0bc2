# The project in NVIDIA's CUDA image, for every GPU that the toolkit knows: docs/many-gpus.md. Its build is what
# has to pass before a change lands. Another toolkit: docker build --build-arg CUDA=12.8.1 .
ARG CUDA=13.0.1
FROM nvidia/cuda:${CUDA}-devel-ubuntu24.04

# What the first make needs to find, and install, the rest.
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
  ca-certificates ccache git make python3 python3-venv
WORKDIR /reprolab
COPY . .
RUN .ci/run && make build dropin PRESET=all-archs
