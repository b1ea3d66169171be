# docker build --tag sparsemean .
# docker run --rm --read-only --tmpfs /tmp --user "$(id -u):$(id -g)" --volume "$PWD:/data" sparsemean fit metrics.csv
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/sparsemean && /opt/sparsemean/bin/pip install --no-cache-dir ".[all]"
# Kernels are compiled here, as what runs later cannot keep them; on another kind of processor each start compiles anew.
ENV PATH=/opt/sparsemean/bin:$PATH
RUN python -c "import numpy as np; X = np.random.default_rng(0).standard_normal((600, 1000)); X[:, 0] += 1; np.save('X.npy', X)" \
    && sparsemean fit --quiet X.npy --report X.html && sparsemean demo

FROM python:3.13-slim
COPY --from=build /opt/sparsemean /opt/sparsemean
ENV PATH=/opt/sparsemean/bin:$PATH
WORKDIR /data
USER 65532:65532
ENTRYPOINT ["sparsemean"]
CMD ["--help"]
