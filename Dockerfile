# docker build --tag sparsemean .
# docker run --rm --read-only --tmpfs /tmp --user "$(id -u):$(id -g)" --volume "$PWD:/data" sparsemean fit metrics.csv
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/sparsemean && /opt/sparsemean/bin/pip install --no-cache-dir ".[all]"
# Kernels are compiled here: what runs later cannot keep them. On another kind of processor they are compiled at each start.
ENV PATH=/opt/sparsemean/bin:$PATH
RUN python -c "import numpy as np; np.save('noise.npy', np.random.default_rng(0).standard_normal((600, 1000)))" \
    && sparsemean fit --quiet noise.npy && sparsemean demo

FROM python:3.13-slim
COPY --from=build /opt/sparsemean /opt/sparsemean
ENV PATH=/opt/sparsemean/bin:$PATH
WORKDIR /data
USER 65532:65532
ENTRYPOINT ["sparsemean"]
CMD ["--help"]
