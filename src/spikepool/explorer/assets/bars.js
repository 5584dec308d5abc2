/* The weights: one bar and one field for each position. Moving either makes custom weights. */
(function () {
  "use strict";
  const dash = (window.dash_clientside = window.dash_clientside || {});
  const own = (dash.spikepool = dash.spikepool || {});
  const STEPS = 100;

  let shown = null; // what the server last answered
  let local = []; // bar heights as seen
  let scale = { low: 0, high: 1 };
  let dragging = false;
  let drawn = null; // the answer that the bars show

  own.shownWeights = function (T) {
    const weights = local.length ? local : Array(T).fill(1 / T);
    return weights.map((value) => Number(value.toPrecision(4)));
  };

  function rescale() {
    const high = Math.max(...local, 0);
    const low = Math.min(...local, 0);
    const room = Math.max(high, -low, 1e-6);
    scale = { low: low < 0 ? low - 0.12 * room : 0, high: Math.max(high + 0.15 * room, 1e-6) };
  }

  const share = (value) => (100 * (value - scale.low)) / (scale.high - scale.low);

  function draw() {
    const frame = document.getElementById("bars-frame");
    const fields = document.getElementById("fields-frame");
    if (frame.children.length !== local.length) build(frame, fields, local.length);
    const zero = share(0);
    local.forEach(function (value, i) {
      const column = frame.children[i];
      const track = column.firstChild;
      const top = share(value);
      track.firstChild.style.bottom = Math.min(zero, top) + "%";
      track.firstChild.style.height = Math.abs(top - zero) + "%";
      track.firstChild.style.background = shown.color;
      track.setAttribute("aria-valuenow", value.toPrecision(3));
      track.setAttribute("aria-valuemin", scale.low.toPrecision(3));
      track.setAttribute("aria-valuemax", scale.high.toPrecision(3));
      const field = fields.children[i].lastChild;
      if (field !== document.activeElement) field.value = String(Number(value.toFixed(Math.abs(value) < 10 ? 3 : 1)));
    });
  }

  function commit() {
    const values = local.map((value) => Number(value.toPrecision(6)));
    dash.set_props("custom", { data: values });
    if (shown.kind !== "custom") {
      shown = Object.assign({}, shown, { kind: "custom" });
      dash.set_props("w", { value: "custom" });
    }
  }

  function put(i, value) {
    drawn = null;
    local[i] = Math.min(100, Math.max(-100, value));
    draw();
    commit();
  }

  function build(frame, fields, T) {
    frame.replaceChildren();
    fields.replaceChildren();
    const every = T <= 20 ? 1 : T <= 50 ? 5 : 10;
    for (let i = 0; i < T; i++) {
      frame.append(bar(i, (i + 1) % every === 0 || i === 0));
      fields.append(number(i));
    }
  }

  function number(i) {
    const label = document.createElement("label");
    label.append(String(i + 1));
    const field = document.createElement("input");
    field.type = "number";
    field.step = "any";
    field.className = "bar-field";
    field.setAttribute("aria-label", "Weight of position " + (i + 1) + ", number");
    field.addEventListener("change", function () {
      const value = Number(field.value);
      if (field.value.trim() !== "" && Number.isFinite(value)) {
        put(i, value);
        rescale();
      }
      draw();
    });
    label.append(field);
    return label;
  }

  function bar(i, named) {
    const box = document.createElement("div");
    box.className = "bar-column";
    const track = document.createElement("div");
    track.className = "bar-track";
    track.tabIndex = 0;
    track.setAttribute("role", "slider");
    track.setAttribute("aria-orientation", "vertical");
    track.setAttribute("aria-label", "Weight of position " + (i + 1));
    const fill = document.createElement("div");
    fill.className = "bar-fill";
    track.append(fill);
    const name = document.createElement("span");
    name.className = "bar-name";
    name.textContent = named ? String(i + 1) : "";
    box.append(track, name);

    const follow = function (event) {
      const area = track.getBoundingClientRect();
      const height = Math.min(1, Math.max(0, (area.bottom - event.clientY) / area.height));
      const step = (scale.high - scale.low) / STEPS;
      const value = scale.low + Math.round((height * (scale.high - scale.low)) / step) * step;
      put(i, Math.abs(value) < step / 2 ? 0 : value);
    };
    track.addEventListener("pointerdown", function (event) {
      dragging = true;
      track.setPointerCapture(event.pointerId);
      track.focus();
      follow(event);
      event.preventDefault();
    });
    track.addEventListener("pointermove", (event) => dragging && track.hasPointerCapture(event.pointerId) && follow(event));
    const release = function () {
      if (!dragging) return;
      dragging = false;
      rescale();
      draw();
    };
    track.addEventListener("pointerup", release);
    track.addEventListener("pointercancel", release);
    track.addEventListener("keydown", function (event) {
      const step = (scale.high - scale.low) / 50;
      const moves = { ArrowUp: step, ArrowRight: step, ArrowDown: -step, ArrowLeft: -step, PageUp: 5 * step, PageDown: -5 * step };
      if (event.key in moves) put(i, Math.max(Math.min(scale.low, 0), local[i] + moves[event.key]));
      else if (event.key === "Home") put(i, 0);
      else if (event.key === "End") put(i, scale.high);
      else return;
      event.preventDefault();
    });
    return box;
  }

  own.bars = function (data) {
    own.answered();
    if (!data || data.error) return dash.no_update;
    const text = JSON.stringify(data);
    if (text === drawn && !dragging) return dash.no_update; // the usual case when another slider moves
    drawn = text;
    shown = data;
    if (!dragging) {
      const busy = document.activeElement && document.activeElement.classList.contains("bar-track");
      local = (data.kind === "custom" ? data.raw : data.weights).slice();
      if (!busy || local.some((value) => value > scale.high || value < scale.low)) rescale();
      draw();
    }
    return dash.no_update;
  };
})();
