# The project in NVIDIA's CUDA image, for every GPU that the toolkit knows: docs/many-gpus.md. Its build is what
# has to pass before a change lands. The digest is that of 13.0.1-devel-ubuntu24.04 for x86-64 and Arm, as public
# Dockerfiles pin it; pulling checks it. Another: docker build --build-arg IMAGE=nvidia/cuda:12.8.1-devel-ubuntu24.04 .
ARG IMAGE=nvidia/cuda:13.0.1-devel-ubuntu24.04@sha256:7d2f6a8c2071d911524f95061a0db363e24d27aa51ec831fcccf9e76eb72bc92
FROM ${IMAGE}

# What the first make needs to find, and install, the rest.
RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
  ca-certificates ccache git make python3 python3-venv
WORKDIR /reprolab
COPY . .
RUN .ci/run change && make build dropin PRESET=all-archs
