"""Serve a classifier of texts that spikepool wrote as an ONNX file; needs onnxruntime, tokenizers and NumPy alone.

python serve_texts.py model.onnx --port 8000
curl -d '["Snow in Oslo today?"]' localhost:8000
"""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

parser = argparse.ArgumentParser()
parser.add_argument("model", type=Path, help="ONNX file, with tokenizer.json beside it")
parser.add_argument("--port", type=int, default=8000)
options = parser.parse_args()
session = onnxruntime.InferenceSession(str(options.model))
classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
tokenizer = Tokenizer.from_file(str(options.model.with_name("tokenizer.json")))


def answer(texts):
    encoded = tokenizer.encode_batch(texts)
    ids = np.array([one.ids for one in encoded], dtype=np.int64)
    mask = np.array([one.attention_mask for one in encoded], dtype=np.int64)
    labels, proba = session.run(["label", "probabilities"], {"input_ids": ids, "attention_mask": mask})
    return [{"label": classes[k], "probability": round(float(p.max()), 6)} for k, p in zip(labels, proba, strict=True)]


class Handler(BaseHTTPRequestHandler):
    """Answers a JSON list of texts with their labels and probabilities."""

    def do_POST(self):
        """A request."""
        try:
            texts = json.loads(self.rfile.read(min(int(self.headers["Content-Length"]), 2**20)))
            status, result = 200, answer([str(text) for text in texts])
        except (ValueError, TypeError) as error:
            status, result = 400, {"error": str(error)}
        body = json.dumps(result).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
print(f"listening on port {server.server_port}", flush=True)
server.serve_forever()
