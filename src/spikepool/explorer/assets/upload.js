/* Uploads: the file is the plain body of one request, so the server can put it straight on disk. */
(function () {
  "use strict";
  const dash = (window.dash_clientside = window.dash_clientside || {});
  const own = (dash.spikepool = dash.spikepool || {});
  const HELP = {
    features:
      "Rows of pooled features (n, d), or of token embeddings (n, T, d): .npy, .npz, .safetensors, .parquet, .arrow or .jsonl; features also .csv and .tsv.",
    table: "A matrix with one row per token: .npy, .npz, .safetensors, .gguf, .parquet, .arrow or .csv.",
  };
  const COMMAND = {
    features: "spikepool report X.npy --labels y.npy --out report.html",
    table: "spikepool spectrum table.safetensors --out spectrum.html",
  };
  let input = null;
  const beside = {}; // the files that go with the rows, by role

  function fileField(place, id, text) {
    const label = document.createElement("label");
    label.htmlFor = id;
    label.textContent = text;
    const field = document.createElement("input");
    field.type = "file";
    field.id = id;
    place.append(label, field);
    return field;
  }

  own.prepareUpload = function () {
    const drop = document.getElementById("upload-drop");
    if (!drop || drop.children.length) return;
    input = fileField(drop, "upload-file", "Choose a file, or drop it here");
    beside.labels = fileField(document.getElementById("upload-labels-place"), "upload-labels", "Labels, one per row (optional) ");
    beside.mask = fileField(document.getElementById("upload-mask-place"), "upload-mask", "Mask of the tokens (optional) ");
    drop.addEventListener("dragover", function (event) {
      event.preventDefault();
      drop.classList.add("over");
    });
    drop.addEventListener("dragleave", () => drop.classList.remove("over"));
    drop.addEventListener("drop", function (event) {
      event.preventDefault();
      drop.classList.remove("over");
      if (event.dataTransfer.files.length) input.files = event.dataTransfer.files;
    });
  };

  own.uploadHelp = (kind) => [HELP[kind] || "", kind !== "features", COMMAND[kind] || ""];

  own.answerExports = function (job) {
    const tail = job ? "?job=" + encodeURIComponent(job) : "";
    return ["html", "json", "csv"].map((kind) => "/export/your-data." + kind + tail);
  };

  function fail(message) {
    dash.set_props("upload-problem", { children: message, hidden: false });
    dash.set_props("upload-note", { children: "" });
    dash.set_props("upload-send", { disabled: false });
  }

  own.upload = async function (clicks, kind, target) {
    if (!clicks) return dash.no_update;
    const file = input && input.files[0];
    dash.set_props("upload-result", { hidden: true });
    if (!file) {
      fail("Choose a file first.");
      return dash.no_update;
    }
    const query = new URLSearchParams({ kind: kind, name: file.name });
    const parts = [];
    if (kind === "features") {
      for (const role of ["labels", "mask"]) {
        const other = beside[role].files[0];
        if (!other) continue;
        query.set(role, other.name);
        query.set(role + "_size", String(other.size));
        parts.push(other);
      }
      if (parts.length && Number.isFinite(target)) query.set("target", String(target));
    }
    const body = new Blob([...parts, file]);
    const limit = Number(document.getElementById("upload-drop").dataset.limit);
    if (body.size > limit) {
      const count = (bytes) => bytes.toLocaleString("en");
      fail("The upload has " + count(body.size) + " bytes; at most " + count(limit) + " are accepted here. Use instead: " + COMMAND[kind]);
      return dash.no_update;
    }
    dash.set_props("upload-problem", { children: "", hidden: true });
    dash.set_props("upload-note", { children: "Sending…" });
    dash.set_props("upload-send", { disabled: true });
    try {
      const response = await fetch("/upload?" + query, {
        method: "POST",
        body: body,
        headers: { "Content-Type": "application/octet-stream" },
      });
      const answer = await response.json();
      if (!response.ok) {
        fail(answer.error || "The server refused the file.");
        return dash.no_update;
      }
      dash.set_props("upload-job", { data: answer.job });
      dash.set_props("upload-cancel", { disabled: false });
      dash.set_props("upload-tick", { disabled: false });
    } catch (error) {
      fail("The file could not be sent.");
    }
    return dash.no_update;
  };
})();
