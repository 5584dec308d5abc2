/* Uploads: the file is the plain body of one request, so the server can put it straight on disk. */
(function () {
  "use strict";
  const dash = (window.dash_clientside = window.dash_clientside || {});
  const own = (dash.spikepool = dash.spikepool || {});
  const HELP = {
    features: "A matrix with one row a sequence and one column a dimension: .npy, or .csv without text columns.",
    table: "A matrix with one row a token: .npy, .npz, .safetensors, .gguf, .parquet, .arrow or .csv.",
  };
  let input = null;

  own.prepareUpload = function () {
    const drop = document.getElementById("upload-drop");
    if (!drop || drop.children.length) return;
    const label = document.createElement("label");
    label.htmlFor = "upload-file";
    label.textContent = "Choose a file, or drop it here";
    input = document.createElement("input");
    input.type = "file";
    input.id = "upload-file";
    drop.append(label, input);
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

  own.uploadHelp = (kind) => [HELP[kind] || "", kind !== "features"];

  function fail(message) {
    dash.set_props("upload-problem", { children: message, hidden: false });
    dash.set_props("upload-note", { children: "" });
    dash.set_props("upload-send", { disabled: false });
  }

  own.upload = async function (clicks, kind, V) {
    if (!clicks) return dash.no_update;
    const file = input && input.files[0];
    dash.set_props("upload-result", { hidden: true });
    if (!file) {
      fail("Choose a file first.");
      return dash.no_update;
    }
    const limit = Number(document.getElementById("upload-drop").dataset.limit);
    if (file.size > limit) {
      fail("The file has " + file.size.toLocaleString("en") + " bytes; at most " + limit.toLocaleString("en") + " are accepted.");
      return dash.no_update;
    }
    dash.set_props("upload-problem", { children: "", hidden: true });
    dash.set_props("upload-note", { children: "Sending…" });
    dash.set_props("upload-send", { disabled: true });
    const known = kind === "features" && Number.isInteger(V) ? V : "";
    const query = new URLSearchParams({ kind: kind, name: file.name, V: known });
    try {
      const response = await fetch("/upload?" + query, {
        method: "POST",
        body: file,
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
