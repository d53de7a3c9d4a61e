# The operator's image: Python, the package and its eleven dependencies; no shell tools are needed at run time.
# Runs as nobody and writes no file, so that the root file system can be read-only.
#
#     docker build -t kuberay:dev .
#     kuberay install --image kuberay:dev | kubectl apply --server-side --force-conflicts -f -

FROM python:3.12-slim AS build
COPY pyproject.toml README.md LICENSE /source/
COPY src /source/src
RUN python -m venv /operator \
 && /operator/bin/pip install --no-cache-dir /source \
 && /operator/bin/pip uninstall --yes pip \
 && /operator/bin/python -m compileall -q /operator/lib \
 && printf '#!/bin/sh\nexec /operator/bin/kuberay operator "$@"\n' > /manager \
 && chmod 755 /manager

FROM python:3.12-slim
COPY --from=build /operator /operator
# KubeRay's image has its operator under this name, and its charts call it so.
COPY --from=build /manager /manager
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 8080 8082
ENTRYPOINT ["/manager"]
