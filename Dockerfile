# A server of an encoder. `docker build -t juzhen .`; for NVIDIA GPUs `docker build --build-arg TORCH=cu128 -t juzhen:cuda .`
FROM python:3.11-slim

# A folder of PyTorch's own index: cpu, or a version of CUDA, whose libraries come along.
ARG TORCH=cpu
# Mirrors, where these are far: `--build-arg TORCH_INDEX=https://… --build-arg PIP_INDEX_URL=https://…`.
ARG TORCH_INDEX=https://download.pytorch.org/whl/${TORCH}
ARG PIP_INDEX_URL=https://pypi.org/simple

ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1

WORKDIR /build
# Torch changes seldom, and is by far the largest layer.
COPY constraints.txt ./
RUN pip install torch --constraint constraints.txt --index-url "${TORCH_INDEX}"
COPY pyproject.toml README.md LICENSE ./
COPY conf/dataset conf/dataset
COPY juzhen juzhen
RUN pip install ".[serve,search,onnx]" --constraint constraints.txt && rm -rf /build/*

RUN useradd --create-home juzhen
USER juzhen
WORKDIR /home/juzhen

EXPOSE 8000
# Keys must be given, since everybody may reach a container: JUZHEN_API_KEYS, or --api-keys FILE.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["juzhen", "serve", "--host", "0.0.0.0"]
CMD ["builtin/mini_zh"]
