"""Serve a classifier of texts that spikepool wrote as an ONNX file; needs onnxruntime, tokenizers and NumPy alone.

python serve_texts.py model.onnx --port 8000
curl -d '["Snow in Oslo today?"]' localhost:8000

A request is a JSON list of at least one text, of at most a mebibyte; anything else is answered with 400 and a reason.
"""

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

LARGEST_BODY = 2**20  # bytes
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


def read(headers, stream):
    """The texts of a request; ValueError with a sentence for any other body."""
    length = headers.get("Content-Length", "")
    if not length.isdigit():
        raise ValueError("The request needs a Content-Length.")
    if int(length) > LARGEST_BODY:
        stream.read(min(int(length), 16 * LARGEST_BODY))  # so that a client that is still sending gets the answer
        raise ValueError(f"The body has {length} bytes; at most {LARGEST_BODY} are read. Send fewer texts at a time.")
    try:
        texts = json.loads(stream.read(int(length)))
        json.dumps(texts, ensure_ascii=False).encode()  # a lone surrogate is valid JSON and no text
    except (ValueError, RecursionError) as error:
        raise ValueError(f"The body is not JSON in UTF-8: {error}.") from error
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError('The body must be a JSON list of one or more texts, such as ["Snow in Oslo today?"].')
    return texts


class Handler(BaseHTTPRequestHandler):
    """Answers a JSON list of texts with their labels and probabilities."""

    def do_POST(self):
        """A request."""
        try:
            status, result = 200, answer(read(self.headers, self.rfile))
        except ValueError as error:
            status, result = 400, {"error": str(error)}
            self.close_connection = True
        body = json.dumps(result).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
print(f"listening on port {server.server_port}", flush=True)
server.serve_forever()
