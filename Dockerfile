# Serves the ONNX export of a model, which is mounted at /model; torch is not needed and not installed. See docs/verbs/serve.md.
FROM python:3.13-slim

WORKDIR /app
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN pip install --no-cache-dir --constraint constraints.txt \
        fastapi filelock numpy onnxruntime prometheus-client pyarrow pydantic rich tokenizers typer uvicorn \
    && pip install --no-cache-dir --no-deps . \
    && useradd --system --uid 10001 isogloss

USER 10001
EXPOSE 8000
HEALTHCHECK --start-period=30s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=3)"]
ENTRYPOINT ["isogloss", "serve", "--host", "0.0.0.0"]
CMD ["onnx:/model"]
